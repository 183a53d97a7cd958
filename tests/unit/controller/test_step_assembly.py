"""Both ends of transfers put together."""

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from emulator.control.observations import RankSteps
from emulator.controller.recording.recorder import StepAssembly, joined
from emulator.results.run_folder.schema import RunTable, to_batch

Sent = tuple[int, int, int]
"""(source, destination, lane)"""


def block(rank: int, sends: list[Sent], receives: list[Sent], *, instance: int = 0, iteration: int = 0) -> RankSteps:
    """What a rank recorded: its k-th send started at 10 k, its k-th receive came at 1,000 + k."""
    mine, theirs = [one for one in sends if one[0] == rank], [one for one in receives if one[1] == rank]
    every = range(len(mine))
    return RankSteps(
        iteration,
        instance,
        rank,
        100 + rank,
        receiver=[dst for _, dst, _ in mine],
        send_lane=[lane for *_, lane in mine],
        step=list(every),
        size_bytes=[7 * k for k in every],
        start_ns=[10 * (k + 1) for k in every],
        post_ns=[10 * (k + 1) + 1 for k in every],
        acknowledged_ns=[10 * (k + 1) + 2 for k in every],
        sender=[src for src, _, _ in theirs],
        receive_lane=[lane for *_, lane in theirs],
        arrival_ns=[1000 + k for k in range(len(theirs))],
    )


def rows(columns: Any) -> list[dict[str, Any]]:
    return to_batch(RunTable.STEPS.schema, {"iteration": 0, "instance": 0} | columns).to_pylist()


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1)).filter(lambda one: one[0] != one[1])),
    st.randoms(use_true_random=False),
)
def test_the_kth_transfer_of_a_line_is_the_kth_at_both_ends(sends: list[Sent], random: Random) -> None:
    # Lines arrive in any order among each other, each in its own order.
    arrivals: list[Sent] = []
    left = {line: sends.count(line) for line in sends}
    while any(left.values()):
        line = random.choice([one for one, count in left.items() if count])
        left[line] -= 1
        arrivals.append(line)
    found = rows(joined([block(rank, sends, arrivals) for rank in range(4)]))
    assert len(found) == len(sends)
    assert all(value is not None for row in found for name, value in row.items() if not name.startswith(_LATER))
    for line in set(sends):
        of_line = [row for row in found if (row["src"], row["dst"], row["lane"]) == line]
        order = sorted(of_line, key=lambda row: int(row["step"]))
        came = [row["arrival_ns"] for row in order]
        assert came == sorted(came)
        assert [row["arrival_ns"] - 1000 for row in order] == [
            at for at, one in enumerate(one for one in arrivals if one[1] == line[1]) if one == line
        ]


_LATER = ("qpn", "source_port", "path", "ideal")


def test_an_end_that_is_missing_is_null() -> None:
    lost = [(0, 1, 0), (1, 0, 0)]
    (there, back) = sorted(rows(joined([block(0, lost, lost)])), key=lambda row: int(row["src"]))
    assert (there["node_id"], there["size_bytes"], there["acknowledged_ns"], there["arrival_ns"]) == (100, 0, 12, None)
    assert (back["node_id"], back["size_bytes"], back["start_ns"], back["arrival_ns"]) == (None, None, None, 1000)


def test_what_never_came_is_null() -> None:
    one = block(0, [(0, 1, 0)], [])
    cut = RankSteps(0, 0, 0, 1, [1], [0], [0], [5], one.start_ns, [0], [0], [], [], [])
    (row,) = rows(joined([cut]))
    assert (row["start_ns"], row["post_ns"], row["acknowledged_ns"]) == (10, None, None)


def test_an_instance_is_written_when_its_last_member_has_spoken() -> None:
    assembly = StepAssembly(lambda rank, node: 2)
    sends = [(0, 1, 0), (1, 0, 0)]
    assert list(assembly.add(block(0, sends, sends))) == []
    assert list(assembly.add(block(0, sends, sends, instance=1))) == []
    (found,) = assembly.add(block(1, sends, sends))
    assert (found["instance"], len(found["src"])) == (0, 2)
    (rest,) = assembly.rest()
    assert (rest["instance"], assembly.incomplete, assembly.complete) == (1, 1, {(0, 0)})


def test_members_that_never_come_do_not_fill_the_memory() -> None:
    assembly = StepAssembly(lambda rank, node: 2, most_transfers=3)
    given = [found["instance"] for k in range(6) for found in assembly.add(block(0, [(0, 1, 0)], [], instance=k))]
    assert given == [0, 1, 2]


def test_an_instance_without_transfers_has_no_rows() -> None:
    assert rows(joined([block(0, [], []), block(1, [], [])])) == []
