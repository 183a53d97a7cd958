"""How much of a collective's time the network had, from the time stamps of its members."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import pyarrow as pa
import pytest

from emulator.control.observations import BEHIND, MemberChain
from emulator.controller.recording.network_time import NetworkTimes, Split, split
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter

Sent = tuple[int, int, int]
"""Receiver, what it waited for, when it left."""
Received = tuple[int, int]
"""Sender, when it came."""
TWO_HOSTS = (0, 1)


def member(rank: int, sent: Sequence[Sent], received: Sequence[Received], *, post_ns: int = 0) -> MemberChain:
    receivers, causes, left = zip(*sent, strict=True) if sent else ((), (), ())
    senders, came = zip(*received, strict=True) if received else ((), ())
    lanes = [0] * len(receivers), [0] * len(senders)
    return MemberChain(0, 0, rank, 7, post_ns, 0, receivers, lanes[0], causes, left, senders, lanes[1], came)


def test_the_network_has_the_transfers_of_the_chain_that_ends_last_and_the_tester_the_rest() -> None:
    members = [
        member(0, [(1, 0, 100_000), (1, 1, 450_000)], [(1, 250_000), (1, 700_000)]),
        member(1, [(0, 0, 200_000), (0, 1, 500_000)], [(0, 120_000), (0, 480_000)]),
    ]
    # 1 → 0 ends last, from 500 to 700; it waited for 0 → 1, from 100 to 120.
    assert split(members, TWO_HOSTS) == Split(200_000 + 20_000, 2)


def test_what_waits_behind_an_earlier_transfer_of_its_port_was_in_the_network() -> None:
    """The second transfer could have gone at 300 but left at 900, when the first one of the same port was through."""
    members = [
        member(0, [(1, 0, 100_000), (1, 1, 900_000)], [(1, 300_000)]),
        member(1, [(0, 0, 100_000)], [(0, 950_000), (0, 1_800_000)]),
    ]
    assert split(members, TWO_HOSTS) == Split(1_800_000 - 100_000, 2)
    # So small that the port was free: the second one waited for what came at 300.
    assert split(members, TWO_HOSTS, busy_ns=50_000) == Split(900_000 + 200_000, 2)


@pytest.mark.parametrize("gap_ns", [-60_000, 0, 60_000])
@pytest.mark.parametrize(("ranks", "lanes"), [(2, 1), (3, 1), (3, 2), (4, 2), (5, 3)])
def test_a_port_that_is_never_idle_for_long_had_all_of_its_transfers(ranks: int, lanes: int, gap_ns: int) -> None:
    """A ring in lanes that share the ports: between two transfers of one, a port is idle for `gap_ns`, or not at all.

    A transfer of a lane waits for the one of the step before; after those, a port has one of each other lane to send.
    """
    steps, each_ns = 2 * (ranks - 1), 1_000_000
    left = [[step * lanes + lane for lane in range(lanes)] for step in range(steps)]
    times = [[turn * (each_ns + gap_ns) + 1_000_000 for turn in row] for row in left]
    lane_of, left_ns = [lane for _ in times for lane in range(lanes)], [at for row in times for at in row]
    came = [at + each_ns for at in left_ns]
    # The step before of its lane is `lanes` rows earlier; causes count from 1.
    causes = [max(0, row - lanes + 1) for row in range(len(left_ns))]
    members = [
        MemberChain(
            *(0, 0, rank, 7, 0, 0, [(rank + 1) % ranks] * len(left_ns), lane_of, causes, left_ns),
            *([(rank - 1) % ranks] * len(left_ns), lane_of, came),
        )
        for rank in range(ranks)
    ]
    count = len(left_ns)
    busy_ns = count * each_ns if gap_ns >= 0 else count * each_ns + (count - 1) * gap_ns
    assert split(members, range(ranks), busy_ns=2 * each_ns) == Split(busy_ns, count)


def test_what_passed_beside_the_cause_is_not_what_was_waited_for() -> None:
    """Both ranks send at once, and the own transfer arrives a little after the one that the next step waits for."""
    members = [
        member(0, [(1, 0, 100_000), (1, 1, 350_000)], [(1, 290_000)]),
        member(1, [(0, 0, 100_000)], [(0, 310_000), (0, 550_000)]),
    ]
    assert split(members, TWO_HOSTS) == Split(190_000 + 200_000, 2)


def test_what_waits_for_the_tester_alone_is_not_held_against_an_earlier_transfer() -> None:
    """The port was free when what the second transfer waits for came, and long before that left."""
    members = [
        member(0, [(1, 0, 100_000), (1, 1, 900_000)], [(1, 300_000)]),
        member(1, [(0, 0, 100_000)], [(0, 250_000), (0, 1_000_000)]),
    ]
    assert split(members, TWO_HOSTS) == Split(100_000 + 200_000, 2)


def test_transfers_inside_a_host_are_the_testers() -> None:
    members = [
        member(0, [(1, 0, 100_000)], []),
        member(1, [(2, 1, 600_000)], [(0, 500_000)]),
        member(2, [], [(1, 650_000)]),
    ]
    assert split(members, (0, 0, 1)) == Split(50_000, 1)
    assert split(members, (0, 0, 0)) is None


def test_nothing_counts_before_the_last_post() -> None:
    members = [member(0, [(1, 0, 100_000)], [], post_ns=0), member(1, [], [(0, 500_000)], post_ns=400_000)]
    assert split(members, TWO_HOSTS) == Split(100_000, 1)
    assert split(members, TWO_HOSTS, is_pair=True) == Split(400_000, 1)  # a send waits for nobody


@pytest.mark.parametrize(
    ("left_ns", "came_ns"), [(0, 500_000), (100_000, 0), (600_000, 500_000)], ids=["left", "came", "impossible"]
)
def test_without_sound_time_stamps_nothing_is_known(left_ns: int, came_ns: int) -> None:
    members = [member(0, [(1, 0, left_ns)], []), member(1, [], [(0, came_ns)])]
    assert split(members, TWO_HOSTS) is None
    assert split(members[:1], TWO_HOSTS) is None


class Catalogue:
    """All communications are all-reduces of two ranks."""

    def members(self, rank: int, node_id: int) -> int:
        return 2

    def is_pair(self, rank: int, node_id: int) -> bool:
        return False

    def size_bytes(self, rank: int, node_id: int) -> int:
        return 1000


class Samples:
    """Takes what is filled in."""

    def __init__(self) -> None:
        names = ("iteration", "instance", "network_ns", "network_crossings", "stalled_ns", "port_ns")
        self.batch = pa.record_batch({name: pa.array([0], pa.int64()) for name in names})

    def adjust(self, table: RunTable, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        self.batch = change(self.batch)


@pytest.mark.parametrize(("port_ns", "found"), [((500, 700), 700), ((500, 0), 500), ((BEHIND, 700), 0)])
def test_the_busiest_port_counts_unless_a_member_sent_too_late_to_tell(port_ns: tuple[int, int], found: int) -> None:
    members = [member(0, [(1, 0, 100_000)], [(1, 300_000)]), member(1, [(0, 0, 100_000)], [(0, 400_000)])]
    times, samples = NetworkTimes(Catalogue(), TWO_HOSTS), Samples()
    for one, usual_ns in zip(members, port_ns, strict=True):
        times.add(replace(one, port_ns=usual_ns))
    times.write(cast(RunWriter, samples), instances=1)
    assert samples.batch["network_ns"].to_pylist() == [300_000]
    assert samples.batch["port_ns"].to_pylist() == [found]
