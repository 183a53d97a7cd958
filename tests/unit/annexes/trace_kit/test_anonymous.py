"""What an anonymous copy keeps, and what it must not."""

from collections.abc import Sequence

import numpy as np
import pytest

from emulator.annexes.trace_kit.anonymous import Anonymous, Jitter, recognisable
from emulator.trace.meaning.model import CommKind, NodeType
from emulator.trace.meaning.workload import build_workload
from emulator.trace.synthetic.synthetic import WorkNode
from tests.support.traces import METADATA, Node, coll, node, rank_trace, recv, send


def copied(*ranks: list[Node], jitter: Jitter | None = None) -> tuple[Anonymous, list[list[WorkNode]]]:
    traces = [rank_trace(rank, nodes) for rank, nodes in enumerate(ranks)]

    def names(rank: int) -> Sequence[str]:
        return [one.name for one in ranks[rank]]

    copy = Anonymous(build_workload(traces), traces, names=names, jitter=jitter)
    streams = copy.streams()
    return copy, [list(streams.nodes(rank)) for rank in range(streams.ranks)]


def test_names_are_numbers_that_agree_over_the_ranks() -> None:
    mine = [node(7, name="alice.layer"), coll(9, "all_reduce", name="acme:reduce", deps=[7]), node(8, name="bob")]
    theirs = [node(3, name="bob"), coll(9, "all_reduce", name="acme:reduce")]
    copy, (first, second) = copied(mine, theirs)
    assert [one.name for one in first] == ["compute 1", "compute 2", "all_reduce 1"]
    assert [one.name for one in second] == ["compute 2", "all_reduce 1"]
    assert len(copy.names) == 3


def test_ids_are_positions_in_canonical_order() -> None:
    _, (nodes,) = copied([node(40, deps=[900]), node(900), coll(901, "barrier", 0, deps=[40])])
    assert [(one.node_id, one.deps) for one in nodes] == [(1, ()), (2, (1,)), (3, (2,))]


def test_groups_and_tags_are_numbers() -> None:
    first = [coll(1, "barrier", 0, pg="secret", group_ranks=(0, 1)), send(2, 1, tag=4711)]
    second = [coll(1, "barrier", 0, pg="secret", group_ranks=(0, 1)), recv(2, 0, tag=4711)]
    copy, ranks = copied(first, second, [node(1)])
    assert copy.streams().groups == {1: (0, 1)}
    assert [(one.group, one.tag, one.peer) for one in ranks[0]] == [(1, 0, -1), (0, 0, 1)]


def test_types_stay_and_communication_on_the_cpu_is_compute() -> None:
    _, (nodes,) = copied(
        [node(1, METADATA, name="## process_group:init ##"), coll(2, None, cpu=True, duration=4), node(3)]
    )
    assert [(one.node_type, one.kind, one.on_cpu) for one in nodes] == [
        (NodeType.METADATA, None, False),
        (NodeType.COMP, None, True),
        (NodeType.COMP, None, False),
    ]
    assert nodes[1].name == "communication on the CPU 1"


def test_nested_durations_become_the_exclusive_ones() -> None:
    """What a run deducts must not depend on rf_id, which is not copied."""
    _, (nodes,) = copied(
        [node(1, duration=10, cpu=True, pytorch=True), node(2, duration=4, cpu=True, pytorch=True, ctrl=[1])]
    )
    assert [one.duration_micros for one in nodes] == [6, 4]


def test_starts_count_from_the_first_of_the_set() -> None:
    _, ranks = copied([node(1, start=1_700_000_000), node(2)], [node(1, start=1_700_000_009)])
    assert [[one.start_micros for one in nodes] for nodes in ranks] == [[1, 0], [10]]


def test_jitter_stays_within_its_share_and_keeps_the_order_of_starts() -> None:
    nodes = [node(at, duration=1000 * at, start=at * at * 100) for at in range(1, 60)]
    _, (plain,) = copied(nodes)
    _, (moved,) = copied(nodes, jitter=Jitter(0.05, seed=3))
    ratio = np.array([one.duration_micros for one in moved]) / [one.duration_micros for one in plain]
    assert 0.949 <= ratio.min() < 0.97 < 1.03 < ratio.max() <= 1.051
    starts = [one.start_micros for one in moved]
    assert starts == sorted(starts)
    assert starts != [one.start_micros for one in plain]


@pytest.mark.parametrize("share", [0.01, 0.99])
def test_jitter_leaves_nothing_and_something_what_they_are(share: float) -> None:
    _, (nodes,) = copied([node(1), node(2, duration=1)], jitter=Jitter(share, seed=1))
    assert nodes[0].duration_micros == 0
    assert nodes[1].duration_micros >= 1


def test_jitter_is_random_by_its_seed_which_is_not_in_the_copy() -> None:
    nodes = [node(at, duration=10_000) for at in range(1, 9)]
    copies = [copied(nodes, jitter=Jitter(0.5, seed=seed)) for seed in (1234567, 1234567, 7654321)]
    durations = [[one.duration_micros for one in ranks[0]] for _, ranks in copies]
    assert durations[0] == durations[1] != durations[2]
    assert copies[0][0].streams().parameters == {"charkha.anonymize.jitter": 0.5}


def test_what_remains_recognisable_says_how_exact_times_are() -> None:
    assert recognisable(None)[-1] == "durations, and times from start to start"
    assert "within 5 % of the recorded one" in recognisable(Jitter(0.05, 1))[-1]


def test_a_copy_has_sizes_roots_and_splits() -> None:
    _, ranks = copied(
        [coll(1, "all_to_all", 4, in_splits=(1, 3), out_splits=(1, 2)), coll(2, "broadcast", 8, root=1)],
        [coll(1, "all_to_all", 4, in_splits=(2, 2), out_splits=(3, 2)), coll(2, "broadcast", 8, root=1)],
    )
    assert [(one.kind, one.size_bytes, one.root, one.send_splits, one.recv_splits) for one in ranks[1]] == [
        (CommKind.ALL_TO_ALL, 4, -1, (2, 2), (3, 2)),
        (CommKind.BROADCAST, 8, 1, None, None),
    ]
