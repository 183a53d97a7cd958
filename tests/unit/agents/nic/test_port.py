"""Ranks at one port share its rate, run by run."""

from collections.abc import Callable, Sequence

import pytest

from agents.nic.port import Arrivals, Bucket, PortPacer
from emulator.planner.network.header_overhead import roce_packet_bytes
from emulator.roce.connection.messages import Message, PacketRun, Verb
from emulator.roce.tuning import PORT_LEAD_NS
from emulator.roce.wire.psn import Psn
from tests.support.virtual_clock import VirtualClock

PATH_MTU = 1024
PACKET_NS = roce_packet_bytes(PATH_MTU) * 8  # at 1 Gbit/s


class Flow:
    """A sender with a number of runs to send."""

    def __init__(self, name: str, port: PortPacer, log: list[tuple[str, int]], runs: int, packets: int) -> None:
        self.name, self.port, self.log, self.left = name, port, log, runs
        self.message = Message(Verb.WRITE_IMM, runs * packets * PATH_MTU)
        self.message.packets = runs * packets
        self.packets = packets

    def send(self, now: int) -> None:
        while self.left and self.port.is_free(now):
            offset = self.message.packets - self.left * self.packets
            self.port.charge(PacketRun(self.message, Psn(0), offset, self.packets, False, False), now)
            self.log.append((self.name, now))
            self.left -= 1
        if self.left:
            self.port.wait(self.send)


def paced(clock: VirtualClock, limit: Bucket | None = None, **options: int) -> PortPacer:
    return PortPacer(clock, **{"rate_bps": 10**9} | options, path_mtu=PATH_MTU, is_v6=False, limit=limit)


def played(clock: VirtualClock, *ports: PortPacer, runs: int, packets: int) -> list[tuple[str, int]]:
    """(flow, time) of all runs of flows a, b … that begin at once."""
    log: list[tuple[str, int]] = []
    flows = [Flow(name, port, log, runs=runs, packets=packets) for name, port in zip("ab", ports, strict=False)]
    for flow in flows:
        flow.send(clock.now())
    clock.run()
    assert not any(flow.left for flow in flows)
    return log


def test_flows_take_turns_and_together_keep_the_rate() -> None:
    clock = VirtualClock(10**9)
    log = played(clock, *[paced(clock)] * 2, runs=20, packets=10)
    turns = "".join(name for name, _ in log)
    assert turns[1:-1] == "ab" * 19, "a sent its first before b was there"
    took_ns = log[-1][1] - log[0][1]
    assert took_ns == pytest.approx(39 * 10 * PACKET_NS, rel=0.01)


def test_the_last_packet_of_a_message_counts_its_length() -> None:
    clock = VirtualClock()
    port = paced(clock)
    message = Message(Verb.WRITE_IMM, PATH_MTU + 1)
    message.packets = 2
    port.charge(PacketRun(message, Psn(0), 0, 2, True, False), 10**9)
    wire_bytes = 2 * roce_packet_bytes(0) + PATH_MTU + 1
    assert not port.is_free(10**9 + 8 * wire_bytes - 1)
    assert port.is_free(10**9 + 8 * wire_bytes)


def test_packets_that_leave_at_once_delay_payload() -> None:
    clock = VirtualClock()
    port = paced(clock)
    port.charge(PacketRun(Message(Verb.WRITE_IMM, PATH_MTU), Psn(0), 0, 1, True, False), 0)
    free = next(now for now in range(-(10**6), 10**6, 8) if port.is_free(now))
    for _ in range(10):
        port.charge_small(0)
    later = next(now for now in range(-(10**6), 10**6, 8) if port.is_free(now))
    assert later - free == 10 * 8 * roce_packet_bytes(0)


@pytest.mark.parametrize("has_backlog", [True, False])
def test_an_acknowledgement_does_not_forgive_the_lateness_of_waiting_payload(has_backlog: bool) -> None:
    clock = VirtualClock(10**9)
    port = paced(clock)
    port.charge(PacketRun(Message(Verb.WRITE_IMM, PATH_MTU), Psn(0), 0, 1, True, False), 10**9)
    due = 10**9 + PACKET_NS
    if has_backlog:
        port.wait(lambda now: None)
    port.charge_small(due + 500_000)  # its alarm, or the next payload, is half a millisecond late
    ack_ns = 8 * roce_packet_bytes(0)
    assert port.is_free((due if has_backlog else due + 500_000) + ack_ns)
    assert not port.is_free((due if has_backlog else due + 500_000) + ack_ns - 1)


@pytest.mark.parametrize(("rate_bps", "packets"), [(10**6, 1), (10**7, 5), (10**8, 56)])
def test_runs_are_short_at_low_rates(rate_bps: int, packets: int) -> None:
    assert paced(VirtualClock(), rate_bps=rate_bps).most_packets == pytest.approx(packets, rel=0.02)


class LateClock(VirtualClock):
    """A clock whose alarms are late, by default by half a millisecond."""

    late_ns = 500_000

    def call_at(self, when: int, callback: Callable[[], None]) -> None:
        super().call_at(max(when, self.now()) + self.late_ns, callback)


def test_late_alarms_do_not_lower_the_rate() -> None:
    clock = LateClock(10**9)
    log = played(clock, paced(clock), runs=100, packets=10)
    assert log[-1][1] - log[0][1] == pytest.approx(99 * 10 * PACKET_NS, rel=0.06)


def idle_ns(log: list[tuple[str, int]], *, run_ns: int) -> int:
    """How long a port is idle between its first and its last run."""
    busy_until, idle = log[0][1], 0
    for _, now in log:
        idle += max(0, now - busy_until)
        busy_until = max(busy_until, now) + run_ns
    return idle


@pytest.mark.parametrize(("lead_ns", "is_busy"), [(0, False), (PORT_LEAD_NS, True)])
def test_a_lead_keeps_the_port_busy_while_its_sender_waits_for_a_core(lead_ns: int, is_busy: bool) -> None:
    clock = LateClock(10**9)
    clock.late_ns = PORT_LEAD_NS - 10 * PACKET_NS
    log = played(clock, paced(clock, lead_ns=lead_ns), runs=2000, packets=10)
    assert (idle_ns(log, run_ns=10 * PACKET_NS) == 0) is is_busy


def test_runs_are_early_by_the_lead_at_most() -> None:
    clock = VirtualClock(10**9)
    log = played(clock, paced(clock, lead_ns=PORT_LEAD_NS), runs=2000, packets=10)
    due = [log[0][1] + number * 10 * PACKET_NS for number in range(2000)]
    assert all(now >= at - PORT_LEAD_NS for (_, now), at in zip(log, due, strict=True))


def test_extension_headers_of_every_packet_count() -> None:
    clock = VirtualClock()
    log = played(clock, paced(clock, extension_bytes=16), runs=2, packets=1000)
    assert log[1][1] - log[0][1] == 1000 * (PACKET_NS + 16 * 8)


def test_ports_take_turns_at_the_limit_of_their_interface_and_together_keep_it() -> None:
    clock = VirtualClock(10**9)
    limit = Bucket(clock, rate_bps=10**7)
    log = played(clock, *(paced(clock, limit, rate_bps=10**11) for _ in range(2)), runs=20, packets=1)
    turns = "".join(name for name, _ in log)
    assert not {"aa", "bb"} & {turns[place : place + 2] for place in range(2, 38)}, turns
    assert log[-1][1] - log[0][1] == pytest.approx(39 * 100 * PACKET_NS, rel=0.03)


def test_a_port_keeps_its_own_rate_below_the_limit_of_its_interface() -> None:
    clock = VirtualClock(10**9)
    log = played(clock, paced(clock, Bucket(clock, rate_bps=10**9), rate_bps=10**8), runs=20, packets=1)
    assert log[-1][1] - log[0][1] == pytest.approx(19 * 10 * PACKET_NS, rel=0.01)


def test_runs_are_as_short_as_the_limit_of_the_interface_asks() -> None:
    clock = VirtualClock()
    limited = paced(clock, Bucket(clock, rate_bps=10**7), rate_bps=10**11)
    assert limited.most_packets == paced(clock, rate_bps=10**7).most_packets


PIECE = 32 << 10


def arrivals(
    byte_ns: float, *, gap_ns: int = 0, every: int = 0, read_after_ns: Sequence[int] = (50_000,)
) -> tuple[Arrivals, int]:
    """128 receptions of 32 KiB at a pace, with a gap before every Nth, and when the last one came."""
    found, now = Arrivals(10**9), 0
    for number in range(128):
        now += round(PIECE * byte_ns) + (gap_ns if every and number % every == every - 1 else 0)
        found.note(now, PIECE, now + read_after_ns[number % len(read_after_ns)])
    return found, now


def test_a_sender_without_a_core_leaves_gaps_and_the_pace_of_the_port_is_that_between_them() -> None:
    found, until = arrivals(8, gap_ns=4_000_000, every=10)  # 12 waits, as long as all bytes together
    assert until > 1.9 * 128 * PIECE * 8 * 0.95
    assert found.usual_ns(0, until) == pytest.approx(128 * PIECE * 8, rel=1e-3)


@pytest.mark.parametrize("gap_ns", [0, 4_000_000])
def test_a_port_at_85_percent_has_a_slower_pace_whether_the_sender_waits_or_not(gap_ns: int) -> None:
    found, until = arrivals(8 / 0.85, gap_ns=gap_ns, every=10)
    assert found.usual_ns(0, until) == pytest.approx(128 * PIECE * 8 / 0.85, rel=1e-3)


def test_what_an_algorithm_lets_come_faster_for_a_while_counts_as_it_came() -> None:
    found, now = Arrivals(10**9), 0
    for number in range(128):
        now += PIECE * (16 if number < 80 else 8)
        found.note(now, PIECE, now + 50_000)
    assert found.usual_ns(0, now) == pytest.approx(PIECE * (80 * 16 + 48 * 8), rel=0.01)


def test_receptions_of_several_sockets_count_in_the_order_of_their_stamps() -> None:
    found = Arrivals(10**9)
    for first in range(0, 128, 8):  # a socket is read after the other
        for start in (0, 1):
            for number in range(first + start, first + 8, 2):
                found.note((number + 1) * PIECE * 8, PIECE, (first + 8) * PIECE * 8)
    assert found.usual_ns(0, 128 * PIECE * 8) == 128 * PIECE * 8


def test_no_pace_is_known_of_few_bytes_or_if_the_receiver_did_not_keep_up() -> None:
    found, until = arrivals(8)
    assert found.usual_ns(until * 9 // 10, until) == 0
    late, until = arrivals(8, read_after_ns=[1_100_000])  # 137 KB always stand in its sockets
    assert late.usual_ns(0, until) == 0
    waits, until = arrivals(8, read_after_ns=[1_100_000, 800_000, 500_000, 200_000])  # a receiver that waits for a core
    assert waits.usual_ns(0, until) == 128 * PIECE * 8


def test_a_sender_leads_while_its_port_still_has_something_to_send() -> None:
    clock = VirtualClock(10**9)
    port = paced(clock, lead_ns=PORT_LEAD_NS)
    played(clock, port, runs=40, packets=10)
    assert port.lead_bytes == 38 * 10 * PATH_MTU  # all but the first
    late = paced(clock)
    for number in range(4):
        late.charge(PacketRun(Message(Verb.WRITE_IMM, PATH_MTU), Psn(0), 0, 1, False, False), 10**10 * (number + 1))
    assert late.lead_bytes == -4 * PATH_MTU
