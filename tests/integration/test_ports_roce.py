"""Ranks at ports with rates: only at a port of its own line rate does payload go ahead of its time."""

from __future__ import annotations

import pytest

from agents.transports.base import Port
from emulator.roce.tuning import PORT_LEAD_NS
from tests.integration.roce_bed import RoceBed
from tests.integration.socket_bed import play


@pytest.mark.parametrize(("cap_bps", "lead_ns"), [(10**9, PORT_LEAD_NS), (10**8, 0)], ids=["line rate", "below it"])
def test_queue_pairs_lead_as_their_port_does(cap_bps: int, lead_ns: int) -> None:
    async def scenario(bed: RoceBed) -> None:
        for transport in bed.transports:
            transport.use_ports({rank: Port(rank, line_rate_bps=10**9, cap_bps=cap_bps) for rank in range(2)})
        a, b = await bed.connected(2)
        a.send(1, [(1, 50_000)])
        await bed.until(lambda: b.arrivals(0) == [(1, 50_000)])
        sending = bed.transports[0]._endpoints[0]
        assert sending.nic.port is not None
        assert sending.nic.port.lead_ns == lead_ns
        channel = sending._links[1]._channels[1]
        assert channel is not None
        assert channel.pair.lead_ns == lead_ns

    play(RoceBed, scenario)


@pytest.mark.parametrize(
    ("numbers", "rate_cap", "is_paced"),
    [((0, 1), "0", True), ((0, 0), "0", False), ((0, 0), "1Gbit", True)],
    ids=["two ports", "one port", "one port, requested cap"],
)
def test_the_default_cap_of_a_port_spares_traffic_that_never_crosses_it(
    numbers: tuple[int, int], rate_cap: str, is_paced: bool
) -> None:
    async def scenario(bed: RoceBed) -> None:
        transport = bed.transports[0]
        transport.use_ports(
            {rank: Port(number, line_rate_bps=10**9, cap_bps=10**9) for rank, number in enumerate(numbers)}
        )
        a, b = await bed.connected(2)
        a.send(1, [(1, 50_000)])
        await bed.until(lambda: b.arrivals(0) == [(1, 50_000)])
        channel = transport._endpoints[0]._links[1]._channels[1]
        assert channel is not None
        assert (channel.port is not None) == is_paced

    play(RoceBed, scenario, agents=1, rate_cap_bps=rate_cap)
