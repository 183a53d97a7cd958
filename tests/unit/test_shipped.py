"""Files that come with Charkha, by name, from any folder."""

import re
from pathlib import Path

import pytest

from emulator.experiment.spec.document import read_experiment, with_absolute_paths
from emulator.experiment.spec.spec import Experiment, Network
from emulator.shipped import PAGES, PROFILES, TOPOLOGIES, TRACES, Shipped, first_line, shipped_suites
from emulator.topology.load import load_topology
from emulator.trace.files.load import load_trace

ROOT = Path(__file__).parents[2]
SWITCH = ROOT / "topologies" / "two-hosts-switch.yaml"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is not a source tree."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("given", ["two-hosts-switch", "two-hosts-switch.yaml", "topologies/two-hosts-switch.yaml"])
def test_a_name_and_a_path_in_the_source_tree_are_found(given: str) -> None:
    assert TOPOLOGIES.find(given) == SWITCH
    assert load_topology(Path(given), ranks=2).source == str(SWITCH)


@pytest.mark.parametrize("given", ["transformer-8r", "lab/examples/transformer-8r", "lab/examples/transformer-8r/"])
def test_an_example_trace_is_found(given: str) -> None:
    assert len(load_trace(Path(given)).files) == 8


def test_what_exists_comes_first(elsewhere: Path) -> None:
    mine = elsewhere / "two-hosts-switch.yaml"
    mine.touch()
    assert TOPOLOGIES.find("two-hosts-switch.yaml") == Path("two-hosts-switch.yaml")
    (elsewhere / "transformer-8r.0.et").touch()
    assert TRACES.find("transformer-8r") == Path("transformer-8r")  # a prefix


@pytest.mark.parametrize("given", ["nowhere", "other/two-hosts.yaml", "/topologies/two-hosts.yaml", "a\0b", "x" * 999])
def test_what_does_not_exist_stays_as_it_was_given(given: str) -> None:
    assert TOPOLOGIES.find(given) == Path(given)
    assert TRACES.find(given) == Path(given)


def test_a_run_spec_can_name_them_next_to_its_own_files(elsewhere: Path) -> None:
    (elsewhere / "specs").mkdir()
    (elsewhere / "specs" / "run.yaml").write_text(
        "charkha: 1\njobs: [{trace: {path: transformer-8r}}]\nnetwork: {topology: mine.yaml}\n"
    )
    found = read_experiment(elsewhere / "specs" / "run.yaml")
    assert found.job.trace.path == str(ROOT / "lab" / "examples" / "transformer-8r")
    assert found.network.topology == str(elsewhere / "specs" / "mine.yaml")


def test_a_stored_run_spec_has_the_paths_that_were_meant() -> None:
    network = Network(topology="two-hosts-switch")
    stored = with_absolute_paths(Experiment.of_trace("transformer-8r", network=network))
    assert stored.network.topology == str(SWITCH)
    assert stored.job.trace.path == str(ROOT / "lab" / "examples" / "transformer-8r")


def test_an_installed_package_has_them_below_share(elsewhere: Path) -> None:
    (elsewhere / "share" / "examples" / "one").mkdir(parents=True)
    (elsewhere / "site-packages" / "lab" / "examples" / "another").mkdir(parents=True)  # of another package
    kind = Shipped("lab/examples", "", installed=elsewhere / "share", source_tree=elsewhere / "site-packages")
    assert kind.paths == {"one": elsewhere / "share" / "examples" / "one"}
    assert kind.find("lab/examples/one") == elsewhere / "share" / "examples" / "one"


def test_every_kind_has_files_and_a_first_line() -> None:
    assert {"loopback", "leaf-spine-2x2"} <= set(TOPOLOGIES.paths)
    assert list(TRACES.paths) == ["transformer-8r"]
    assert {"fw-a", "fw-b"} <= set(PROFILES.paths)
    assert first_line(PAGES.paths["glossary"]) == "Glossary"
    for path in (*TOPOLOGIES.paths.values(), *PROFILES.paths.values(), *shipped_suites().values()):
        assert first_line(path).endswith("."), f"{path}: `charkha help examples` shows this line: a sentence"
    assert first_line(SWITCH) == "Two hosts through one switch, 1 Gbit/s a port: the smallest lab."
    assert first_line(TRACES.paths["transformer-8r"]) == ""


def test_the_package_installs_what_the_source_tree_has() -> None:
    import tomllib

    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    installed = {path for patterns in listed.values() for pattern in patterns for path in ROOT.glob(pattern)}
    wanted = [path for kind in (TOPOLOGIES, PROFILES, PAGES) for path in kind.paths.values()]
    assert installed >= {*wanted, *(file for path in TRACES.paths.values() for file in path.iterdir())}
    assert {Path(target).parts[2] for target in listed} == {"topologies", "profiles", "docs", "examples", "man1"}


def test_a_source_file_that_a_page_names_is_there() -> None:
    """docs/security.md names the test behind each of its claims; decisions and guides name where things are."""
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md"]
    source = re.compile(r"`((?:emulator|agents|tests|lab)/[\w/-]+\.\w+)`")
    named = {path for page in pages for path in source.findall(page.read_text())}
    assert "tests/unit/agents/test_control_link.py" in named
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []
