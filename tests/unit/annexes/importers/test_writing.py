"""What an imported trace becomes on disk."""

import json
from pathlib import Path

import pytest

from emulator._pb import et_pb2
from emulator.annexes.importers.model import (
    Fate,
    ImportedNode,
    ImportedRank,
    ImportedTrace,
    Losses,
    NodeResource,
    RecordedOperation,
)
from emulator.annexes.importers.writing import write_imported
from emulator.errors import InputError
from emulator.trace.files.attributes import attribute_value
from emulator.trace.meaning.model import CommKind
from tests.support.trace_files import parse_trace


def collective(kind: CommKind, **facts: object) -> RecordedOperation:
    return RecordedOperation(where="", name="", kind=kind, size_bytes=96, **facts)  # type: ignore[arg-type]


def written(folder: Path, *ranks: list[ImportedNode]) -> list[list[et_pb2.Node]]:
    made = [ImportedRank(rank, ["a.json"], "kineto", 0, {}, nodes) for rank, nodes in enumerate(ranks)]
    paths = write_imported(ImportedTrace(Path("job"), "pytorch", made, [], Losses()), folder)
    return [list(parse_trace(path.read_bytes())[1]) for path in paths if path.suffix == ".et"]


def network(number: int, operation: RecordedOperation) -> ImportedNode:
    return ImportedNode(number, operation.kind.label, NodeResource.NETWORK, operation=operation)


def attributes(node: et_pb2.Node) -> dict[str, object]:
    return {one.name: attribute_value(one) for one in node.attr if not one.name.startswith("charkha.s")}


def test_durations_are_rounded_so_that_sums_stay_right(tmp_path: Path) -> None:
    """Ten segments of 300 ns are 3 us, not 0; kernels are summed apart."""
    cpu = [ImportedNode(number, "s", NodeResource.CPU, duration_ns=300) for number in range(1, 11)]
    device = [ImportedNode(number, "k", NodeResource.DEVICE, duration_ns=2_600) for number in range(11, 21)]
    [nodes] = written(tmp_path / "made", [*cpu, *device])
    assert sum(one.duration_micros for one in nodes[:10]) == 3
    assert sum(one.duration_micros for one in nodes[10:]) == 26
    assert [attributes(one)["is_cpu_op"] for one in nodes] == [True] * 10 + [False] * 10
    assert [attributes(one)["charkha.duration_ns"] for one in nodes] == [300] * 10 + [2_600] * 10


def test_group_ranks_roots_and_peers_become_world_ranks(tmp_path: Path) -> None:
    operations = [
        collective(CommKind.BROADCAST, group="7", ranks=(1, 3), root=1),
        collective(CommKind.SEND, group="7", ranks=(1, 3), peer=1, tag=5),
    ]
    nodes = [network(number, one) for number, one in enumerate(operations, 1)]
    broadcast, send = written(tmp_path / "made", [], nodes, [], [])[1]
    assert attributes(broadcast)["root_rank"] == 3
    said = attributes(send)
    assert (said["comm_src"], said["comm_dst"], said["comm_tag"]) == (1, 3, 5)


def test_groups_get_numbers_of_their_own(tmp_path: Path) -> None:
    """The default group has none; another one of all ranks, and groups of the same name and other ranks, have."""
    first = [
        collective(CommKind.ALL_REDUCE, group="0", ranks=()),
        collective(CommKind.ALL_REDUCE, group="12", ranks=()),
        collective(CommKind.ALL_REDUCE, group="1", ranks=(0,)),
    ]
    second = [*first[:2], collective(CommKind.ALL_REDUCE, group="1", ranks=(1,))]
    nodes = [[network(number, one) for number, one in enumerate(those, 1)] for those in (first, second)]
    ranks = written(tmp_path / "made", *nodes)
    assert [[attributes(one).get("pg_name") for one in those] for those in ranks] == [
        [None, "1", "2"],
        [None, "1", "3"],
    ]
    assert json.loads((tmp_path / "made" / "comm_group.json").read_text()) == {"1": [0, 1], "2": [0], "3": [1]}


def test_splits_are_written(tmp_path: Path) -> None:
    exchange = collective(CommKind.ALL_TO_ALL, send_splits=(32, 64), recv_splits=(32, 8))
    [[node], _] = written(tmp_path / "made", [network(1, exchange)], [])
    said = attributes(node)
    assert (said["charkha.in_splits"], said["charkha.out_splits"]) == ((32, 64), (32, 8))


def test_the_report_counts_and_names(tmp_path: Path) -> None:
    losses = Losses()
    for number in range(5):
        losses.count(Fate.GUESSED, "root", f"a.json, node {number}")
    rank = ImportedRank(2, ["/x/a.json"], "host", 4, {}, [], losses)
    write_imported(ImportedTrace(Path("job"), "pytorch", [rank], [0, 1, 3], losses), tmp_path / "made")
    said = json.loads((tmp_path / "made" / "import.json").read_text())
    assert said["guessed"] == {"root": {"count": 5, "first": [f"a.json, node {number}" for number in range(3)]}}
    assert (said["missing_ranks"], said["dropped"]) == ([0, 1, 3], {})
    assert said["ranks"] == [{"rank": 2, "files": ["a.json"], "mode": "host", "nodes": 0, "communications": 0}]
    assert [path.name for path in sorted((tmp_path / "made").iterdir())] == ["import.json", "trace.2.et"]


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(InputError, match="is not empty"):
        written(tmp_path, [])
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
