"""How many steps an agent holds, and when it lets go of them."""

from collections.abc import Sequence

from agents.play import tags
from agents.play.recording_player import MOST_WAITING, StepKeeper, StepRecord
from emulator.control.observations import StepRecords
from emulator.planner.rank_program import WORST_STEPS
from emulator.roce.connection.messages import FirstSent


class Wire:
    """Takes what is sent; `waiting` values are queued before it."""

    def __init__(self) -> None:
        self.sent: list[StepRecords] = []
        self.waiting = 0

    def post(self, peer: int, tag: int, size: int, sent: FirstSent | None = None) -> None:
        """See Poster."""

    def instances(self) -> list[tuple[int, int]]:
        return [(one.iteration, block.instance) for one in self.sent for block in one.blocks]


def keeper(wire: Wire, record_steps: int = 1) -> StepKeeper:
    return StepKeeper(record_steps, send=wire.sent.append, waiting=lambda: wire.waiting, most=100, batch=30)


def play(keep: StepKeeper, instances: Sequence[int], *, transfers: int = 10, iteration: int = 0) -> None:
    """One rank plays instances with as many transfers each."""
    for instance in instances:
        record = StepRecord(Wire(), now=lambda: 1, admit=keep.admit)
        for step in range(transfers):
            record.begin(1, 0, step, 64)
            record.post(1, tags.data_tag(instance, 0), 64)
        keep.take(record, iteration=iteration, instance=instance, rank=0, node_id=instance)


def test_the_slowest_are_sent_when_the_controller_asks_for_them() -> None:
    wire = Wire()
    keep = keeper(wire, WORST_STEPS)
    play(keep, range(5))
    assert wire.sent == []
    keep.release(0, [3, 1])
    assert wire.instances() == [(0, 3), (0, 1)]
    keep.release(0, [3])
    keep.finish()
    assert len(wire.instances()) == 2
    assert keep.lost == 0


def test_what_nobody_asked_for_makes_room_the_oldest_first() -> None:
    wire = Wire()
    keep = keeper(wire, WORST_STEPS)
    play(keep, range(25))
    keep.release(0, [0, 14, 15, 24])
    assert wire.instances() == [(0, 15), (0, 24)]


def test_records_wait_here_while_the_control_stream_is_busy_and_the_rest_is_counted() -> None:
    wire = Wire()
    wire.waiting = MOST_WAITING
    keep = keeper(wire)
    play(keep, range(25))
    assert wire.sent == []
    assert keep.lost == 15
    wire.waiting = 0
    keep.flush()
    assert wire.instances() == [(0, instance) for instance in range(10)]
    play(keep, [25, 26, 27])
    assert wire.instances()[10:] == [(0, 25), (0, 26), (0, 27)]
    assert keep.lost == 15


def test_a_busy_stream_gets_the_rest_when_the_run_is_over() -> None:
    wire = Wire()
    wire.waiting = MOST_WAITING
    keep = keeper(wire)
    play(keep, [0, 1], iteration=4)
    play(keep, [0], iteration=5)
    keep.finish()
    assert [(one.iteration, len(one.blocks)) for one in wire.sent] == [(4, 2), (5, 1)]


def test_a_record_that_does_not_fit_is_not_sent_in_part() -> None:
    wire = Wire()
    keep = keeper(wire)
    play(keep, [0], transfers=101)
    play(keep, [1])
    keep.finish()
    assert wire.instances() == [(0, 1)]
    assert keep.lost == 1


def test_warm_up_takes_no_room() -> None:
    wire = Wire()
    keep = keeper(wire)
    play(keep, range(25), iteration=-1)
    play(keep, range(10))
    keep.finish()
    assert len(wire.instances()) == 10
    assert keep.lost == 0
