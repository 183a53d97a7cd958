"""What a player that records steps writes down, and that playing is the same with it."""

from collections import Counter

import pytest

from emulator.control.observations import RankSteps
from emulator.planner.algorithms import algorithm_names
from emulator.trace.meaning.model import CommKind, RankTrace
from tests.support.playing import Played, everyone, play
from tests.support.traces import coll, rank_trace, recv, send

EVERY_ALGORITHM = [(kind, name) for kind in CommKind if kind.is_collective for name in sorted(algorithm_names(kind))]
NETWORK = {"message_bytes": 100, "bytes_per_s": 10**9}
PAIRS: list[RankTrace] = [
    rank_trace(0, [send(1, 1, 700), recv(2, 1, 0), coll(3, "barrier", 0)]),
    rank_trace(1, [recv(1, 0, 700), send(2, 0, 0), coll(3, "barrier", 0)]),
]


def check_steps(played: Played) -> None:
    """Bytes are those of the completions, both ends agree on what was sent, and times are in order."""
    blocks = {(one.iteration, one.rank, one.node_id): one for one in played.steps}
    for done in played.completions:
        block = blocks.pop((done.iteration, done.rank, done.node_id), None)
        assert (sum(block.size_bytes) if block else 0) == done.bytes_sent
        if block and done.bytes_received:
            assert max(block.arrival_ns) == done.arrival_ns
        if block is not None:
            _check_times(block, post_ns=done.post_ns, done_ns=done.done_ns)
    assert not blocks
    assert _sent(played) == _received(played)


def _check_times(block: RankSteps, *, post_ns: int, done_ns: int) -> None:
    for start, post, acknowledged in zip(block.start_ns, block.post_ns, block.acknowledged_ns, strict=True):
        assert post_ns <= start <= post <= acknowledged <= done_ns


def _sent(played: Played) -> Counter[tuple[int, ...]]:
    return Counter(
        (one.iteration, one.instance, one.rank, receiver, lane)
        for one in played.steps
        for receiver, lane in zip(one.receiver, one.send_lane, strict=True)
    )


def _received(played: Played) -> Counter[tuple[int, ...]]:
    return Counter(
        (one.iteration, one.instance, sender, one.rank, lane)
        for one in played.steps
        for sender, lane in zip(one.sender, one.receive_lane, strict=True)
    )


@pytest.mark.parametrize("with_credits", [True, False])
@pytest.mark.parametrize("ranks", [2, 7])
@pytest.mark.parametrize(("kind", "name"), EVERY_ALGORITHM, ids=lambda value: getattr(value, "label", value))
def test_every_algorithm_is_recorded_as_it_is_played(kind: CommKind, name: str, ranks: int, with_credits: bool) -> None:
    size = 0 if kind is CommKind.BARRIER else 1000
    label = "reduce_scatter" if kind is CommKind.REDUCE_SCATTER_BLOCK else kind.label
    traces = everyone(ranks, [coll(1, kind.label, size), coll(2, kind.label, size, deps=[1])])
    options = {"with_credits": with_credits, "algorithms": [f"{label}={name}"], "head_start_ns": {1: 500}}
    plain, recorded = (play(traces, **options, record_steps=every, **NETWORK) for every in (0, 1))
    assert recorded.by_node() == plain.by_node()
    assert recorded.summaries == plain.summaries
    check_steps(recorded)


def test_pairs_are_recorded_at_both_ends_and_nothing_of_what_sends_nothing() -> None:
    played = play(PAIRS, record_steps=1, with_credits=False, head_start_ns={1: 10_000}, **NETWORK)
    check_steps(played)
    assert {(one.rank, one.node_id) for one in played.steps} == {(0, 1), (1, 1), (0, 3), (1, 3)}


def test_a_step_begins_when_what_it_depends_on_has_arrived() -> None:
    played = play(everyone(3, [coll(1, "all_reduce", 900)]), record_steps=1, algorithms=["all_reduce=ring"], **NETWORK)
    for block in played.steps:
        assert list(block.step) == [0, 1, 2, 3]
        assert list(block.start_ns[1:]) == list(block.arrival_ns[:-1])


def test_a_transfer_is_posted_when_its_receiver_has_posted_the_collective() -> None:
    late_ns = 50_000
    played = play(
        everyone(2, [coll(1, "all_reduce", 900)]),
        record_steps=1,
        head_start_ns={1: late_ns},
        algorithms=["all_reduce=ring"],
    )
    first = next(one for one in played.steps if one.rank == 0)
    assert first.start_ns[0] == played.at(0, 1).post_ns
    assert first.post_ns[0] >= played.at(1, 1).post_ns == first.start_ns[0] + late_ns


@pytest.mark.parametrize(
    ("every", "recorded"), [(1, {0: {0, 1, 2}, 1: {0, 1, 2}}), (2, {0: {1}, 1: {0, 2}}), (3, {0: {2}, 1: {1}})]
)
def test_every_nth_instance_is_recorded_and_warm_up_never(every: int, recorded: dict[int, set[int]]) -> None:
    nodes = [coll(k, "all_reduce", 64, deps=[k - 1] if k > 1 else []) for k in (1, 2, 3)]
    played = play(everyone(2, nodes), record_steps=every, iterations=(-1, 0, 1))
    found: dict[int, set[int]] = {}
    for one in played.steps:
        found.setdefault(one.iteration, set()).add(one.instance)
    assert found == recorded
    assert len(played.steps) == 2 * sum(map(len, recorded.values()))
