"""Ranks at ports with rates: only at a port of its own line rate does payload go ahead of its time."""

import pytest

from agents.nic.channel import Channel
from agents.nic.port import Bucket
from agents.transports.base import RankPort
from emulator.host.clock import TimerfdClock
from emulator.roce.tuning import PORT_LEAD_NS
from tests.integration.roce_bed import RoceBed


@pytest.mark.parametrize(("cap_bps", "lead_ns"), [(10**9, PORT_LEAD_NS), (10**8, 0)], ids=["line rate", "below it"])
async def test_queue_pairs_lead_as_their_port_does(cap_bps: int, lead_ns: int) -> None:
    async with RoceBed() as bed:
        for transport in bed.transports:
            transport.use_ports({rank: RankPort(rank, line_rate_bps=10**9, cap_bps=cap_bps) for rank in range(2)})
        a, b = await bed.connected(2)
        a.send(1, [(1, 50_000)])
        await bed.until(lambda: b.arrivals(0) == [(1, 50_000)])
        sending = bed.transports[0]._endpoints[0]
        assert sending.nic.port.lead_ns == lead_ns
        channel = sending._links[1]._channels[1]
        assert channel.pair.lead_ns == lead_ns


@pytest.mark.parametrize(
    ("numbers", "rate_cap", "is_paced"),
    [((0, 1), "0", True), ((0, 0), "0", False), ((0, 0), "1Gbit", True)],
    ids=["two ports", "one port", "one port, requested cap"],
)
async def test_the_default_cap_of_a_port_spares_traffic_that_never_crosses_it(
    numbers: tuple[int, int], rate_cap: str, is_paced: bool
) -> None:
    async with RoceBed(agents=1, rate_cap_bps=rate_cap) as bed:
        transport = bed.transports[0]
        transport.use_ports(
            {rank: RankPort(number, line_rate_bps=10**9, cap_bps=10**9) for rank, number in enumerate(numbers)}
        )
        a, b = await bed.connected(2)
        a.send(1, [(1, 50_000)])
        await bed.until(lambda: b.arrivals(0) == [(1, 50_000)])
        channel = transport._endpoints[0]._links[1]._channels[1]
        assert isinstance(channel, Channel)
        assert (channel.port is not None) == is_paced


async def test_the_limit_of_the_owner_is_for_all_that_leaves_an_interface_whatever_the_job() -> None:
    async with RoceBed() as bed:
        clock = TimerfdClock()
        limit = Bucket(clock, rate_bps=10**9)
        for transport in bed.transports:  # of two jobs of an agent
            transport.use_ports({rank: RankPort(0, cap_bps=10**11, limit=limit) for rank in range(2)})
        a, b = await bed.connected(2)
        began = clock.now()
        a.send(1, [(1, 50_000), (2, 0)])
        await bed.until(lambda: len(b.arrivals(0)) == 2)
        payload, control = (bed.transports[0]._endpoints[0]._links[1]._channels[index] for index in (1, 0))
        assert isinstance(payload, Channel)
        assert isinstance(control, Channel)
        assert payload.port is control.port is not bed.transports[1]._endpoints[1].nic.port
        assert not limit.is_free(began + 50_000 * 8)
        clock.close()


async def test_control_messages_wait_for_the_limit_of_the_owner() -> None:
    async with RoceBed() as bed:
        clock = TimerfdClock()
        limit = Bucket(clock, rate_bps=10**6)
        for transport in bed.transports:
            transport.use_ports({rank: RankPort(0, cap_bps=10**11, limit=limit) for rank in range(2)})
        a, b = await bed.connected(2)
        limit.charge_size(10**4, clock.now())  # 80 ms
        a.send(1, [(1, 0)])
        control = bed.transports[0]._endpoints[0]._links[1]._channels[0]
        assert isinstance(control, Channel)
        assert control._is_waiting
        await bed.until(lambda: b.arrivals(0) == [(1, 0)])
        clock.close()
