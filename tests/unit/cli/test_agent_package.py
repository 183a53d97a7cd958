"""charkha-agent (packaging/agent) is complete: all that an agent imports is in it, and nothing else is."""

import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any

import grimp
import pytest
from packaging.requirements import Requirement

from emulator.cli import main as command
from tests.support.command import ROOT

IMPORTED_AS = {"grpcio": "grpc", "prometheus-client": "prometheus_client", "protobuf": "google", "pyzmq": "zmq"}
"""Distribution → its module, where the names differ."""


def read(path: str) -> Mapping[str, Any]:
    return tomllib.loads((ROOT / path).read_text())


WHOLE, AGENT = read("pyproject.toml"), read("packaging/agent/pyproject.toml")
FOUND = AGENT["tool"]["setuptools"]["packages"]["find"]["include"]


def requirements(document: Mapping[str, Any], *extras: str) -> set[str]:
    project = document["project"]
    return set(project["dependencies"]).union(*(project["optional-dependencies"][extra] for extra in extras))


@cache
def needed() -> set[str]:
    """Every module that `charkha agent start` or an agent process may import, at once or later."""
    graph = grimp.build_graph("emulator", "agents", include_external_packages=True, exclude_type_checking_imports=True)
    starts = {"emulator.cli.main"} | {name for name in graph.modules if name.partition(".")[0] == "agents"}
    return starts.union(*(graph.find_upstream_modules(name) for name in starts))


def packages() -> set[str]:
    """The packages of the project that these modules are in."""
    own = {name for name in needed() if name.partition(".")[0] in ("emulator", "agents")}
    return {name if (ROOT / name.replace(".", "/")).is_dir() else name.rpartition(".")[0] for name in own}


def test_it_has_the_packages_that_an_agent_imports_and_no_others() -> None:
    patterns = {name for name in FOUND if name.endswith("*")}
    listed = set(FOUND) - patterns
    parents = {"emulator.results", "emulator.results.statistics", "emulator.trace"}  # of listed ones
    by_name = {"emulator.annexes", "emulator.annexes.msccl"}  # that a job's algorithms are read with
    assert by_name <= listed
    assert listed - parents - by_name == {
        name for name in packages() if not name.startswith(tuple(p[:-1] for p in patterns))
    }
    assert "emulator.cli.commands" not in packages()


def test_it_requires_the_libraries_that_an_agent_imports_and_no_others() -> None:
    outside = {name.partition(".")[0] for name in needed()} - {"emulator", "agents", *sys.stdlib_module_names}
    names = {Requirement(one).name for one in requirements(AGENT, "fast", "verbs")}
    assert outside == {IMPORTED_AS.get(name, name) for name in names}


def test_it_requires_the_same_versions_as_the_whole() -> None:
    assert requirements(AGENT) < requirements(WHOLE)
    assert requirements(AGENT, "fast", "verbs") < requirements(WHOLE, "fast", "verbs")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command as charkha-agent has it."""
    monkeypatch.setattr(command, "IS_COMPLETE", False)


@pytest.mark.usefixtures("alone")
def test_its_command_names_the_whole_for_all_but_agent(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["run", "lab/examples/transformer-8r"]) == 3
    assert "run is not part of charkha-agent: " in capsys.readouterr().err
    assert command.main(["agent", "start", "--controller", "127.0.0.1", "--name", "run"]) == 2
    assert command.main(["agnt"]) == 2
    assert "did you mean 'agent'?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["--help"])
    shown = capsys.readouterr().out
    assert "  agent start  " in shown
    assert "controller  " not in shown
