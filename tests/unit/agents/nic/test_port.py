"""Ranks at one port share its rate, run by run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agents.nic.port import Bucket, PortPacer
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


def test_flows_take_turns_and_together_keep_the_rate() -> None:
    clock, log = VirtualClock(10**9), list[tuple[str, int]]()
    port = paced(clock)
    flows = [Flow(name, port, log, runs=20, packets=10) for name in "ab"]
    for flow in flows:
        flow.send(clock.now())
    clock.run()
    assert [flow.left for flow in flows] == [0, 0]
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
    clock, log = LateClock(10**9), list[tuple[str, int]]()
    flow = Flow("a", paced(clock), log, runs=100, packets=10)
    flow.send(clock.now())
    clock.run()
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
    clock, log = LateClock(10**9), list[tuple[str, int]]()
    clock.late_ns = PORT_LEAD_NS - 10 * PACKET_NS
    flow = Flow("a", paced(clock, lead_ns=lead_ns), log, runs=2000, packets=10)
    flow.send(clock.now())
    clock.run()
    assert (idle_ns(log, run_ns=10 * PACKET_NS) == 0) is is_busy


def test_runs_are_early_by_the_lead_at_most() -> None:
    clock, log = VirtualClock(10**9), list[tuple[str, int]]()
    flow = Flow("a", paced(clock, lead_ns=PORT_LEAD_NS), log, runs=2000, packets=10)
    flow.send(clock.now())
    clock.run()
    due = [log[0][1] + number * 10 * PACKET_NS for number in range(2000)]
    assert all(now >= at - PORT_LEAD_NS for (_, now), at in zip(log, due, strict=True))


def test_extension_headers_of_every_packet_count() -> None:
    clock = VirtualClock()
    log: list[tuple[str, int]] = []
    Flow("a", paced(clock, extension_bytes=16), log, runs=2, packets=1000).send(clock.now())
    clock.run()
    assert log[1][1] - log[0][1] == 1000 * (PACKET_NS + 16 * 8)


def test_ports_take_turns_at_the_limit_of_their_interface_and_together_keep_it() -> None:
    clock, log = VirtualClock(10**9), list[tuple[str, int]]()
    limit = Bucket(clock, rate_bps=10**7)
    flows = [Flow(name, paced(clock, limit, rate_bps=10**11), log, runs=20, packets=1) for name in "ab"]
    for flow in flows:
        flow.send(clock.now())
    clock.run()
    assert [flow.left for flow in flows] == [0, 0]
    turns = "".join(name for name, _ in log)
    assert not {"aa", "bb"} & {turns[place : place + 2] for place in range(2, 38)}, turns
    assert log[-1][1] - log[0][1] == pytest.approx(39 * 100 * PACKET_NS, rel=0.03)


def test_a_port_keeps_its_own_rate_below_the_limit_of_its_interface() -> None:
    clock, log = VirtualClock(10**9), list[tuple[str, int]]()
    limit = Bucket(clock, rate_bps=10**9)
    slow = Flow("a", paced(clock, limit, rate_bps=10**8), log, runs=20, packets=1)
    slow.send(clock.now())
    clock.run()
    assert log[-1][1] - log[0][1] == pytest.approx(19 * 10 * PACKET_NS, rel=0.01)


def test_runs_are_as_short_as_the_limit_of_the_interface_asks() -> None:
    clock = VirtualClock()
    limited = paced(clock, Bucket(clock, rate_bps=10**7), rate_bps=10**11)
    assert limited.most_packets == paced(clock, rate_bps=10**7).most_packets
