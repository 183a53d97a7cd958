import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.control.parameter import Parameter
from emulator.errors import ResultError
from emulator.results.run_folder.manifest import (
    MANIFEST,
    Exclusion,
    HostFacts,
    Scaling,
    Trials,
    manifest_schema,
    read_manifest,
    to_json,
)
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.writer import RunWriter
from tests.support.runs import edited, manifest


@pytest.mark.parametrize(
    "changes", [{"format_version": "1"}, {"status": "fine"}, {"trace": {}}, {"hosts": [1]}, {"seed": None}]
)
def test_a_document_that_is_not_a_manifest_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(ResultError, match="not the manifest"):
        read_run(edited(tmp_path, **changes))


def test_keys_of_a_later_release_are_ignored(tmp_path: Path) -> None:
    assert read_run(edited(tmp_path, weather="fine")).manifest.status == "complete"


@pytest.mark.parametrize("text", ["", "[]", "{", "\udc80", "[" * 100_000])
def test_junk_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ResultError, match="not the manifest"):
        read_run(tmp_path)


def test_the_manifest_has_the_installed_versions() -> None:
    versions = json.loads(to_json(manifest()))["versions"]
    assert {"charkha", "python", "numpy", "pyzmq"} <= set(versions)
    assert "not installed" not in versions.values()


def test_nics_and_the_device_under_test_survive_the_manifest(tmp_path: Path) -> None:
    nic = {"interface": "eth0", "driver": "veth", "firmware": None, "speed_bps": 10**10, "mtu": 9000}
    facts = replace(manifest(), hosts=(HostFacts("agent-0", nics=(nic,)),), dut={"kind": "switch", "ports": ["sw0:p0"]})
    with RunWriter(tmp_path / "run", facts):
        pass
    read = read_manifest(tmp_path / "run" / MANIFEST)
    assert (read.hosts[0].nics, read.dut) == ((nic,), {"kind": "switch", "ports": ["sw0:p0"]})


@pytest.mark.parametrize(
    ("scaling", "is_scaled"),
    [
        (Scaling(), False),
        (Scaling(compute="1"), False),
        (Scaling(compute="1.0"), False),
        (Scaling(element_bytes=2), False),
        (Scaling(bytes=0.5), True),
        (Scaling(compute="skip"), True),
        (Scaling(compute="0.5"), True),
    ],
)
def test_a_run_is_scaled_if_sizes_or_compute_times_differ_from_the_trace(scaling: Scaling, is_scaled: bool) -> None:
    assert scaling.is_scaled is is_scaled


def test_the_exported_schema_accepts_a_manifest_and_rejects_a_broken_one() -> None:
    document, schema = json.loads(to_json(manifest())), manifest_schema()
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"status": "fine"}, schema)


_TEXT = st.text(max_size=20)
_HOSTS = st.builds(
    HostFacts,
    agent=_TEXT,
    ranks=st.integers(0, 2**31 - 1),
    facts=st.dictionaries(_TEXT, _TEXT, max_size=3),
    transport=st.dictionaries(_TEXT, st.builds(Parameter, _TEXT | st.booleans() | st.integers(0, 2**53 - 1), _TEXT)),
    peak_rss_bytes=st.none() | st.integers(0, 2**53 - 1),
    steal_fraction=st.none() | st.floats(0, 1),
)
_TRIALS = st.builds(
    Trials,
    *[st.integers(0, 9)] * 3,
    excluded=st.lists(st.builds(Exclusion, st.integers(0, 2**31 - 1), _TEXT)).map(tuple),
)


@given(
    hosts=st.lists(_HOSTS, max_size=2).map(tuple), trials=_TRIALS, warnings=st.dictionaries(_TEXT, st.integers(1, 9))
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_manifest_reads_as_it_was_written(
    tmp_path: Path, hosts: tuple[HostFacts, ...], trials: Trials, warnings: dict[str, int]
) -> None:
    written = manifest(hosts=hosts, trials=trials, warnings=warnings)
    (tmp_path / MANIFEST).write_text(to_json(written), encoding="utf-8")
    assert read_manifest(tmp_path / MANIFEST) == written
