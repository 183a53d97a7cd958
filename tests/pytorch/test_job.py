"""A real job of PyTorch, from collection to table: what is played is what the program counted when it issued it.

Needs torch: in the environment of the tests, or in that of the interpreter that CHARKHA_TORCH_PYTHON names.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from emulator.annexes.importers.importing import import_trace, importer_named
from emulator.annexes.importers.model import ImportedRank
from tests.support.command import charkha

RANKS = 4
JOB = Path(__file__).with_name("job.py")
WHOLE = {"all_gather", "gather"}
"""Collectives whose size in the table is that of the whole array, as nccl-tests count."""


def torch_python() -> str:
    """An interpreter that has torch; skips the calling test if there is none."""
    named = os.environ.get("CHARKHA_TORCH_PYTHON")
    if named is None and importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch: pip install torch, or name an interpreter that has it in CHARKHA_TORCH_PYTHON")
    return named or sys.executable


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job") / "traces"
    subprocess.run([torch_python(), str(JOB), str(folder)], check=True, timeout=100, capture_output=True)
    return folder


def issued(folder: Path) -> dict[int, list[dict[str, Any]]]:
    """Rank → what it counted, in order."""
    found = defaultdict(list)
    for line in (folder / "issued.txt").read_text().splitlines():
        one = json.loads(line)
        found[one["rank"]].append(one)
    return found


def counted(one: dict[str, Any]) -> tuple[object, ...]:
    """What can be compared of a counted operation."""
    is_collective = one["kind"] not in ("send", "recv")
    group = tuple(one.get("group", range(RANKS))) if is_collective else ()
    splits = tuple(one["send"]) if "send" in one else None
    return one["kind"], one["size_bytes"], group, one.get("root"), one.get("peer"), splits


def imported(rank: ImportedRank) -> list[tuple[object, ...]]:
    """The same of the operations that were imported."""
    found: list[tuple[object, ...]] = []
    for one in rank.operations:
        members = one.ranks or tuple(range(RANKS))
        group = members if one.kind.is_collective else ()
        root, peer = (members[at] if at >= 0 else None for at in (one.root, one.peer))
        found.append((one.kind.label, one.size_bytes, group, root, peer, one.send_splits))
    return found


@pytest.mark.parametrize(
    ("kept", "mode"), [("*.json", "host and kineto"), ("kineto_*.json", "kineto"), ("et_*.json", "host")]
)
def test_every_operation_is_what_the_program_issued(kept: str, mode: str, recorded: Path, tmp_path: Path) -> None:
    """In order, with bytes, group, root, peer and splits, from both kinds of trace and from either alone."""
    for path in recorded.glob(kept):
        (tmp_path / path.name).symlink_to(path)
    trace = import_trace(importer_named("pytorch"), tmp_path)
    assert [one.mode for one in trace.ranks] == [mode] * RANKS
    for rank in trace.ranks:
        assert imported(rank) == [counted(one) for one in issued(recorded)[rank.rank]]


def test_the_table_of_a_run_has_what_was_issued(recorded: Path) -> None:
    played = charkha("run", recorded, "--iterations", 1, "--out", "run", "--json", cwd=recorded.parent)
    assert played.code == 0, played.stderr
    rows: Counter[tuple[str, int, int]] = Counter()
    for row in json.loads(played.stdout)["classes"]:
        rows[row["collective"], row["members"], row["size_bytes"]] += row["count"]
    assert rows == classes(issued(recorded))


def classes(by_rank: dict[int, list[dict[str, Any]]]) -> Counter[tuple[str, int, int]]:
    """(kind, members, size) of each operation as the table counts: once, with the size of the rank that sends most."""
    sizes: dict[tuple[object, ...], int] = {}
    for operations in by_rank.values():
        numbers: Counter[tuple[int, ...]] = Counter()
        for one in operations:
            group = tuple(one.get("group", range(RANKS)))
            if one["kind"] == "send":
                sizes["send_recv", 2, one["rank"], len(sizes)] = one["size_bytes"]
            elif one["kind"] != "recv":
                numbers[group] += 1
                key = (one["kind"], len(group), group, numbers[group])
                whole = one["size_bytes"] * (len(group) if one["kind"] in WHOLE else 1)
                sizes[key] = max(sizes.get(key, 0), whole)
    return Counter((kind, members, size) for (kind, members, *_), size in sizes.items())
