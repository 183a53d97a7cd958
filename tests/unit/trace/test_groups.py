"""Process groups: the file, the node, the metadata, the world."""

from typing import Any

import pytest

from emulator.errors import TraceError
from emulator.trace.meaning.groups import parse_group_file
from emulator.trace.meaning.model import Workload
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import coll, rank_trace

Groups = dict[str, tuple[int, ...]]


def build(
    size: int, *, pg: str | None, groups: Groups | None = None, own: Groups | None = None, **node: object
) -> Workload:
    """Every rank of the group has one collective."""
    traces = [rank_trace(rank, [coll(1, "barrier", None, pg, **node)], groups=own) for rank in range(size)]
    return build_workload(traces, groups=groups)


def played(workload: Workload) -> tuple[str, tuple[int, ...]]:
    """Name and ranks of the group of rank 0's collective."""
    group = workload.groups[workload.programs[0].communications[0].group]
    return group.name, group.ranks


def test_group_file_is_parsed() -> None:
    assert parse_group_file(b'{"1": [0, 1], "x": [3]}', "g.json") == {"1": (0, 1), "x": (3,)}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is nested too deeply"),
        ("[1]", "one JSON object"),
        ('{"1": 3}', "'1' must be a list"),
        ('{"1": []}', "'1' must be a list of at least one rank"),
        ('{"1": [0, -1]}', "'1' contains -1"),
        ('{"1": [0, "a"]}', "'1' contains 'a'"),
        ('{"1": [true]}', "'1' contains True"),
        ('{"2": [1, 1]}', "'2' lists a rank twice"),
    ],
)
def test_bad_group_file_is_refused_with_file_and_key(text: str, problem: str) -> None:
    with pytest.raises(TraceError, match=problem) as error:
        parse_group_file(text.encode(), "g.json")
    assert str(error.value).startswith("g.json: ")


DIFFERENT, SORTED = {"group defined twice, differently": 2}, {"group ranks not ascending": 2}


@pytest.mark.parametrize(
    ("pg", "given", "name", "warnings"),
    [
        (None, {}, "", {}),
        ("", {}, "", {}),
        ("0", {}, "", {}),
        ("0", {"groups": {"0": (0, 1)}}, "", {}),
        ("1", {"groups": {"1": (0, 1)}}, "1", {}),
        ("7", {"own": {"7": ()}}, "7", {}),
        ("7", {"own": {"7": (0, 1)}}, "7", {}),
        ("7", {"group_ranks": (0, 1)}, "7", {}),
        (None, {"group_ranks": (0, 1)}, "", {}),
        ("7", {"groups": {"7": (0, 1)}, "own": {"7": (0,)}}, "7", DIFFERENT),
        ("7", {"groups": {"7": (1, 0)}}, "7", SORTED),
        (None, {"groups": {"7": (0, 5)}}, "", {"unused group with absent ranks": 1}),
    ],
)
def test_a_group_comes_from_the_file_the_metadata_or_the_node(
    pg: str | None, given: dict[str, Any], name: str, warnings: dict[str, int]
) -> None:
    workload = build(2, pg=pg, **given)
    assert played(workload) == (name, (0, 1))
    assert (workload.programs[0].communications[0].group == 0) == (name == "")
    assert workload.warnings == warnings


def test_zero_defined_as_fewer_ranks_is_that_group_with_a_warning() -> None:
    traces = [rank_trace(rank, [coll(1, "barrier", None, "0")] if rank < 2 else []) for rank in range(3)]
    workload = build_workload(traces, groups={"0": (0, 1)})
    assert played(workload) == ("0", (0, 1))
    assert workload.warnings == {"group 0 is not the world": 2}


def test_one_name_may_be_different_groups_on_different_ranks() -> None:
    pairs = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}
    traces = [rank_trace(r, [coll(1, "barrier", None, "tp")], groups={"tp": pairs[r]}) for r in range(4)]
    workload = build_workload(traces)
    assert [group.ranks for group in workload.groups[1:]] == [(0, 1), (2, 3)]
    assert workload.instances == 2


def test_a_world_of_one_has_no_group_with_others() -> None:
    with pytest.raises(TraceError, match=r"group 7 lists rank 1, which is absent: .*; record all ranks: .* --ranks N"):
        build(1, pg="7", own={"7": (0, 1, 2)})
    assert played(build(1, pg="unknown")) == ("unknown", (0,))


@pytest.mark.parametrize(
    ("size", "ranks", "problem"),
    [
        (2, (0, 5), "group 7 lists rank 5, which is absent: the trace has ranks 0-1"),
        (3, (1, 2), "group 7 has ranks 1-2, but not the node's own rank 0"),
    ],
)
def test_impossible_group_is_refused(size: int, ranks: tuple[int, ...], problem: str) -> None:
    with pytest.raises(TraceError) as error:
        build(size, pg="7", groups={"7": ranks})
    assert str(error.value) == f"trace.0.et, node 1: {problem}"


def test_rank_named_twice_on_a_node_is_refused() -> None:
    with pytest.raises(TraceError, match="lists a rank twice"):
        build(2, pg="7", group_ranks=(0, 1, 1))


def test_unknown_group_is_refused_saying_how_to_define_it() -> None:
    with pytest.raises(TraceError) as error:
        build(2, pg="7")
    assert str(error.value) == (
        "trace.0.et, node 1: belongs to process group '7', which is not defined: "
        'give a group file with --groups, {"7": [ranks]}'
    )
