"""Which agents are started for a command, and what is refused before any is."""

import shlex
from pathlib import Path

import pytest

from emulator.annexes.launch.launch_here import agents_of
from emulator.cli.main import main
from tests.support.command import refused

HOSTS = "hosts: [{name: a, per_rank: 127.95.0.0/24}, {name: b, per_rank: 127.96.0.0/24}]\n"


def write(folder: Path, text: str) -> str:
    file = folder / "t.yaml"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(
    ("command", "topology", "agents"),
    [
        ("run", HOSTS + "agents: {b: two, a: one}", ["one", "two"]),
        ("run", HOSTS + "agents: {b: two}", ["two"]),
        ("run", HOSTS + "agents: {a: both, b: both}", ["both"]),
        ("run --by-hand", HOSTS, ["a", "b"]),
        ("run", "hosts: {from: agents, count: 2}", ["agent-0", "agent-1"]),
    ],
)
def test_agents_of_a_topology(command: str, topology: str, agents: list[str], tmp_path: Path) -> None:
    assert agents_of([*command.split(), "trace", "--topology", write(tmp_path, topology)]) == agents


@pytest.mark.parametrize(
    ("words", "topology", "problem"),
    [
        ("local -- run x", HOSTS, "the command needs --topology FILE"),
        ("local -- run x --topology {}", HOSTS, "names no agents"),
        ("local -- run x --topology {} --listen unix:x", HOSTS, "--listen: leave it out of the command"),
        ("ssh --host h -- run --by-hand x --topology {}", HOSTS, "names 2 agents (a, b): give as many --host"),
        ("ssh --host @h -- run --by-hand x --topology {}", HOSTS, "write [USER@]HOST[:PORT]"),
    ],
)
def test_what_cannot_be_launched(words: str, topology: str, problem: str, tmp_path: Path) -> None:
    words = words.format(write(tmp_path, topology))
    assert problem in refused("agent", "launch", *shlex.split(words))


@pytest.mark.parametrize("engine", ["local", "ssh --address 192.0.2.1", "slurm"])
def test_print_shows_the_agents_and_starts_nothing(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology = write(tmp_path, HOSTS)
    words = f"agent launch {engine} --interface eth1 --print -- run --by-hand x --topology {topology}"
    assert main(shlex.split(words)) == 0
    shown = capsys.readouterr().out
    assert "--interface eth1" in shown
    assert f"run --by-hand x --topology {topology}" in shown
