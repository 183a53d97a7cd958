"""Another distribution adds a command, an importer and an export; the command runs as a process of its own."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.command import COMMAND, EXAMPLE, Finished

MODULE = '''
"""Counts of messages as a trace, and what goes with it."""

from emulator.annexes.exports.formats import Format, as_text
from emulator.annexes.importers.model import Importer
from emulator.annexes.importers.model import Losses
from emulator.annexes.importers.model import ImportedRank, ImportedTrace, NodeList, RecordedOperation
from emulator.trace.meaning.model import CommKind


def add_parser(subparsers):
    parser = subparsers.add_parser("greet", description="Greet somebody.")
    parser.add_argument("whom")
    parser.set_defaults(handler=lambda args: print("hello", args.whom))


def read_counts(path, *, ranks=None, on_rank=None):
    _, count, size = path.read_text().split()

    def rank_of(rank):
        nodes, before = NodeList(), ()
        for number in range(int(count)):
            operation = RecordedOperation(f"{path}:1", "all_reduce", CommKind.ALL_REDUCE, int(size))
            before = (nodes.issue(operation, before),)
        return ImportedRank(rank, (str(path),), "counts", 2, {}, nodes.nodes, nodes.losses)

    return ImportedTrace.of(path, "counts", [0, 1], rank_of, world_size=2, losses=Losses(), on_rank=on_rank)


COUNTS = Importer("counts", "counts of messages", lambda head: head.startswith(b"counts "), read_counts)
IDENTITY = Format("identity", ".id", "its identifier", as_text(lambda run: run.manifest.run_id))
'''
POINTS = """\
[charkha.commands]
greet = my_plugins:add_parser
lost = my_plugins_lost:add_parser
run = my_plugins_lost:add_parser

[charkha.importers]
counts = my_plugins:COUNTS

[charkha.exports]
identity = my_plugins:IDENTITY
wrong = my_plugins:COUNTS
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with an installed distribution."""
    folder = tmp_path / "packages"
    info = folder / "my_plugins-0.1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "my_plugins.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-plugins\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    return folder


def charkha(*arguments: object, packages: Path) -> Finished:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=packages.parent,
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "Traceback" not in done.stderr
    return Finished(done.returncode, done.stdout, done.stderr)


def test_a_command_of_another_distribution_works(packages: Path) -> None:
    assert charkha("greet", "run", packages=packages).stdout == "hello run\n"
    assert charkha("greet", packages=packages).code == 2


def test_a_trace_in_a_format_of_another_distribution_is_told_from_its_content(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "job.txt").write_text("counts 3 4096\n")
    checked = charkha("trace", "check", "job.txt", "--json", packages=packages)
    assert (checked.code, json.loads(checked.stdout)["ranks"]) == (0, 2)
    made = charkha("trace", "convert", "--from", "counts", "job.txt", "out", "--json", packages=packages)
    assert json.loads(made.stdout)["nodes"] == 6


def test_an_export_of_another_distribution_is_found(packages: Path) -> None:
    assert charkha("run", EXAMPLE, "--iterations", 1, "--out", "run", packages=packages).code == 0
    shown = charkha("runs", "export", "run", "--to", "identity", "--out", "-", packages=packages)
    assert shown.stdout == json.loads((packages.parent / "run" / "manifest.json").read_text())["run_id"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lost"], "commands: 'lost' (my_plugins_lost:add_parser of my-plugins) cannot be used: ModuleNotFound"),
        (
            ["runs", "export", ".", "--to", "wrong"],
            "exports: 'wrong' (my_plugins:COUNTS of my-plugins) cannot be used: it ",
        ),
    ],
)
def test_what_cannot_be_loaded_is_named(arguments: list[str], said: str, packages: Path) -> None:
    refused = charkha(*arguments, packages=packages)
    assert refused.code == 3
    assert said in refused.error


def test_names_of_charkha_cannot_be_taken(packages: Path) -> None:
    assert charkha("run", "--help", packages=packages).code == 0
