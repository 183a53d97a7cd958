"""Run specs name stored files and reach no further; what a choice of files becomes."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from emulator.annexes.service.catalogue import Catalogue, series_of, workload_of
from emulator.annexes.service.configuration import Configuration
from emulator.annexes.service.model import Compose, Dut, Refusal, StoredFile
from emulator.errors import InputError
from emulator.experiment.spec.settings import SETTINGS
from emulator.shipped import TOPOLOGIES
from tests.support.command import EXAMPLE

LOOPBACK = Dut(name="loopback")
SWITCH = Dut(name="switch", topologies=("two-hosts-switch",))
MINE = Dut(name="of-ann", topologies=("mine",))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLE, tmp_path / "traces" / "of-ann" / "small")
    (tmp_path / "topologies").mkdir()
    shutil.copy(TOPOLOGIES.paths["two-hosts-switch"], tmp_path / "topologies" / "mine.yaml")
    return tmp_path


@pytest.fixture
def catalogue(files: Path) -> Catalogue:
    (files / "uploads").mkdir()
    folders = {"traces": (str(files / "traces"),), "topologies": (str(files / "topologies"),)}
    return Catalogue(Configuration(**folders), rules=files / "rules", uploads=files / "uploads")


def spec(**over: Any) -> str:
    return yaml.safe_dump({"charkha": 1, "jobs": [{"trace": {"path": "transformer-8r"}}]} | over)


def with_job(**over: Any) -> str:
    return spec(jobs=[{"trace": {"path": "transformer-8r"}} | over])


def test_all_stored_files_are_listed(catalogue: Catalogue) -> None:
    stored = catalogue.stored()
    assert {"of-ann/small", "transformer-8r"} == {one.name for one in stored.traces}
    assert {"mine", "two-hosts-switch"} <= {one.name for one in stored.topologies}
    assert "smoke" in {one.name for one in stored.suites}
    assert "fw-a" in {one.name for one in stored.profiles}


def test_a_choice_becomes_a_run_spec_that_may_be_played(catalogue: Catalogue, files: Path) -> None:
    choice = Compose(trace="of-ann/small", topology="mine", profile="fw-a", iterations=3)
    (text,) = catalogue.compose(choice).specs.values()
    found = catalogue.read(text, MINE, others=[LOOPBACK, SWITCH, MINE])
    assert found.job.trace is not None
    assert found.job.trace.path == str(files / "traces/of-ann/small")
    assert found.network.topology == str(files / "topologies/mine.yaml")
    assert Path(str(found.device.profile)).name == "fw-a.yaml"
    assert found.job.iterations == 3
    assert workload_of(found) == "small"


def test_an_uploaded_trace_may_be_played_and_is_replaced_by_none(catalogue: Catalogue, files: Path) -> None:
    source = files / "traces/of-ann/small"
    with catalogue.scratch() as folder:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        assert {one.name for one in catalogue.stored().traces} == {"of-ann/small", "transformer-8r"}, "not yet"
        assert catalogue.add_trace("ann", "mine", folder).name == "ann/mine"
    (text,) = catalogue.compose(Compose(trace="ann/mine")).specs.values()
    job = catalogue.read(text, LOOPBACK, others=[LOOPBACK]).job
    assert job.trace is not None
    assert job.trace.path == str(files / "uploads/ann/mine")
    with catalogue.scratch() as folder:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        with pytest.raises(Refusal, match="ann has a trace mine"):
            catalogue.add_trace("ann", "mine", folder)
    with catalogue.scratch() as folder:
        (folder / "notes.txt").touch()
        with pytest.raises(Refusal, match="charkha trace convert"):
            catalogue.add_trace("ann", "other", folder)
    assert [one.name for one in (files / "uploads").iterdir()] == ["ann"]
    assert [one.name for one in (files / "uploads/ann").iterdir()] == ["mine"]


def test_stored_rules_are_checked_named_by_run_specs_and_replaced_by_none(catalogue: Catalogue, files: Path) -> None:
    text = "# nothing is lost\nrules: [{metric: retransmissions, at_most: 0}]"
    assert catalogue.add_rules("ann", "strict", text) == StoredFile(name="ann/strict", about="nothing is lost")
    assert [one.name for one in catalogue.stored().rules] == ["ann/strict"]
    (made,) = catalogue.compose(Compose(trace="of-ann/small", expect="ann/strict")).specs.values()
    found = catalogue.read(made, LOOPBACK, others=[LOOPBACK]).observe.expect
    assert found == str(files / "uploads/ann/strict.yaml")
    assert [str(one) for one in catalogue.rules("ann/strict").rules] == ["retransmissions at most 0"]
    assert catalogue.rules("example").is_example
    with pytest.raises(Refusal, match="ann has rules strict"):
        catalogue.add_rules("ann", "strict", text)
    with pytest.raises(InputError, match=r"there is no metric 'retransmission'; did you mean 'retransmissions'"):
        catalogue.add_rules("ann", "wrong", text.replace("retransmissions", "retransmission"))
    with pytest.raises(InputError, match="more than 5,000 values"):
        catalogue.add_rules("ann", "long", f"rules: [{'1,' * 6000}]")
    with pytest.raises(Refusal, match="did you mean 'ann/strict'"):
        catalogue.rules("ann/strictly")
    assert [one.name for one in (files / "uploads/ann").iterdir()] == ["strict.yaml"]
    catalogue.add_rules("smoke", "mine", text)
    with pytest.raises(Refusal, match="SUITE/CASE of a stored suite"):
        catalogue.rules("smoke/mine")  # nobody takes the name of a suite


@pytest.mark.parametrize(
    ("choice", "names", "job"),
    [
        (Compose(bench="all_reduce", ranks=4, sizes="1K,64K", expect="example"), ["all_reduce"], "sweep"),
        (Compose(bench="pairs", ranks=4, sizes="1M", iterations=2), ["pairs"], "pair_sweep"),
        (Compose(trace="transformer-8r", vary="qps=1,2"), ["transformer-8r qps=1", "transformer-8r qps=2"], "trace"),
    ],
    ids=["bench", "pairs", "sweep"],
)
def test_a_bench_or_sweep_becomes_run_specs_that_may_be_played(
    catalogue: Catalogue, choice: Compose, names: list[str], job: str
) -> None:
    composed = catalogue.compose(choice)
    assert list(composed.specs) == names
    found = [catalogue.read(text, LOOPBACK, others=[LOOPBACK]) for text in composed.specs.values()]
    assert all(getattr(one.job, job) is not None for one in found)
    assert len(set(composed.specs.values())) == len(names)
    assert {one.observe.expect for one in found} == {choice.expect}


@pytest.mark.parametrize("suite", ["smoke", "collectives", "bmwg-training"])
def test_every_case_of_a_suite_becomes_a_run_spec_with_its_rules(catalogue: Catalogue, suite: str) -> None:
    composed = catalogue.compose(Compose(suite=suite))
    assert composed.specs
    for name, text in composed.specs.items():
        found = catalogue.read(text, LOOPBACK, others=[])
        assert yaml.safe_load(Path(str(found.observe.expect)).read_text("utf-8"))["name"] == f"{suite}: {name}"


def test_searches_are_left_out_by_name(catalogue: Catalogue, files: Path) -> None:
    common = "spec: {job: {sweep: {collective: all_reduce, ranks: 2}}}"
    lines = ["charkha_suite: 1", "name: mine", "rules: [{metric: incomplete, at_most: 0}]", "cases:"]
    lines += [f"- {{name: one, {common}}}", f"- {{name: highest, search: {{size: [1K, 1M]}}, {common}}}"]
    (files / "suites").mkdir()
    (files / "suites" / "mine.yaml").write_text("\n".join(lines))
    catalogue = Catalogue(Configuration(suites=(str(files / "suites"),)), rules=files, uploads=files)
    composed = catalogue.compose(Compose(suite="mine"))
    assert list(composed.specs) == ["one"]
    assert [one.partition(":")[0] for one in composed.left_out] == ["highest"]


@pytest.mark.parametrize(
    "choice",
    [
        Compose(),
        Compose(trace="transformer-8r", suite="smoke"),
        Compose(bench="all_reduce"),
        Compose(bench="all_reduce", ranks=2, trace="transformer-8r"),
        Compose(bench="all_sorts", ranks=2),
        Compose(bench="all_reduce", ranks=2, sizes="huge"),
        Compose(trace="transformer-8r", vary="qps"),
        Compose(trace="transformer-8r", vary="qps=1:100:1"),
        Compose(trace="transformer-8r", expect="smoke/no-such-case"),
        Compose(suite="smoke", expect="example"),
        Compose(trace="x"),
        Compose(trace="smoke"),
        Compose(suite="/etc"),
    ],
)
def test_a_choice_of_nothing_both_or_what_is_not_stored_is_refused(catalogue: Catalogue, choice: Compose) -> None:
    with pytest.raises(InputError):
        catalogue.compose(choice)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (spec(jobs=[{"trace": {"path": "/etc"}}]), "'/etc' is none of the stored traces"),
        (spec(jobs=[{"trace": {"path": "../../etc"}}]), "none of the stored traces"),
        (spec(jobs=[{"trace": {"path": "transformer-8"}}]), "did you mean 'transformer-8r'"),
        (spec(jobs=[{"trace": {"path": "transformer-8r", "groups": "/etc/passwd"}}]), "job.trace.groups: only an"),
        (with_job(algorithms={"all_reduce": "/etc/x.xml"}), "job.algorithms: only an administrator"),
        (spec(network={"topology": "/etc/hosts"}), "none of the stored topologies"),
        (spec(network={"topology": "rail-4x4/../../etc"}), "none of the stored topologies"),
        (spec(network={"allow_networks": ["8.8.8.0/24"]}), "network.allow_networks: only an administrator"),
        (spec(device={"profile": "/etc/shadow"}), "none of the stored profiles"),
        (spec(events=[{"at": "1s", "profile": "/etc/shadow"}]), "none of the stored profiles"),
        (spec(events=[{"at": "1s", "do": ["ls"]}]), r"events\[0\]\.do: runs a command, which no service does"),
        (spec(agents={"listen": "0.0.0.0:1"}), "agents.listen: only an administrator"),
        (spec(agents={"token_file": "/etc/shadow"}), "agents.token_file: only an administrator"),
        (spec(observe={"mqtt": "mqtt://10.0.0.1"}), "observe.mqtt: only an administrator"),
        (spec(observe={"metrics": "0.0.0.0:9"}), "observe.metrics: only an administrator"),
        (spec(observe={"calibration": "/etc/x"}), "observe.calibration: only an administrator"),
        (spec(observe={"expect": "/etc/passwd"}), "write USER/NAME of stored rules"),
        (spec(observe={"expect": "smoke/none"}), "SUITE/CASE of a stored suite"),
        (spec(campaign={"repeat": 9}), "`repeat` in place of it"),
        (spec(jobs=[{"trace": {"path": "transformer-8r"}, "iteration": 2}]), "iterations"),
        ("{", "run spec:1: is not valid YAML"),
        ("a: &a [1]\nb: *a", "alias"),
    ],
)
def test_what_is_not_stored_or_reaches_further_is_refused(catalogue: Catalogue, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        catalogue.read(text, LOOPBACK, others=[])


def test_a_link_does_not_lead_out_of_a_folder(catalogue: Catalogue, files: Path) -> None:
    (files / "secret.yaml").write_text("secret")
    (files / "topologies" / "link").symlink_to(files)
    with pytest.raises(Refusal, match="none of the stored topologies"):
        catalogue.read(spec(network={"topology": f"{files}/topologies/link/secret.yaml"}), LOOPBACK, others=[])


def test_a_topology_leads_through_one_device_only(catalogue: Catalogue) -> None:
    over = spec(network={"topology": "two-hosts-switch"})
    assert catalogue.read(over, SWITCH, others=[LOOPBACK, SWITCH])
    with pytest.raises(Refusal, match="loopback lists no topologies, so it takes only loopback: submit it for switch"):
        catalogue.read(over, LOOPBACK, others=[LOOPBACK, SWITCH])
    with pytest.raises(Refusal, match="switch is tested over two-hosts-switch"):
        catalogue.read(spec(), SWITCH, others=[LOOPBACK, SWITCH])
    with pytest.raises(Refusal, match="leads through switch: two runs at once"):
        catalogue.check_dut(Dut(name="other", topologies=("two-hosts-switch",)), [SWITCH])
    catalogue.check_dut(SWITCH, [SWITCH])


@pytest.mark.parametrize("name", ["loopback", "two-hosts", "loopback-storage"])
def test_the_device_loopback_takes_topologies_of_loopback_addresses(catalogue: Catalogue, name: str) -> None:
    found = catalogue.read(spec(network={"topology": name}), LOOPBACK, others=[LOOPBACK])
    assert found.network.topology == str(TOPOLOGIES.paths[name])


@pytest.mark.parametrize("name", ["mine", "rail-4x4", "nic-verbs"])
def test_topologies_that_no_device_lists_are_refused(catalogue: Catalogue, name: str) -> None:
    with pytest.raises(Refusal, match=r"takes only loopback: an administrator lists a topology with its device"):
        catalogue.read(spec(network={"topology": name}), LOOPBACK, others=[LOOPBACK])
    with pytest.raises(Refusal, match="switch is tested over two-hosts-switch: name one of them"):
        catalogue.read(spec(network={"topology": name}), SWITCH, others=[LOOPBACK, SWITCH])


def test_what_the_device_sets_holds_for_its_runs(catalogue: Catalogue) -> None:
    dut = Dut(name="far", spec={"agents": {"by_hand": True, "listen": "192.0.2.1:9"}, "job": {"iterations": 2}})
    catalogue.check_dut(dut, [])
    found = catalogue.read(with_job(iterations=9), dut, others=[])
    assert (found.agents.by_hand, found.job.iterations) == (True, 2)
    with pytest.raises(Refusal, match="spec: agents: unknown key"):
        catalogue.check_dut(Dut(name="far", spec={"agents": {"by_foot": True}}), [])


def test_runs_of_one_spec_are_a_series_whatever_profile_and_seed(catalogue: Catalogue) -> None:
    texts = [spec(), spec(seed=7, device={"profile": "fw-a"}), with_job(iterations=2)]
    first, alike, other = (series_of(catalogue.read(text, LOOPBACK, others=[])) for text in texts)
    assert first == alike != other


def test_every_setting_that_names_a_file_is_reserved_unless_it_names_a_stored_one() -> None:
    stored = {"job.trace.path", "job.algorithms", "network.topology", "observe.expect"}
    assert {one.path for one in SETTINGS if one.facts.locate is not None and not one.facts.is_reserved} == stored
