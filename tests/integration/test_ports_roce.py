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
        assert sending.port is not None
        assert sending.port.lead_ns == lead_ns
        channel = sending._links[1]._channels[1]
        assert channel is not None
        assert channel.pair.lead_ns == lead_ns

    play(RoceBed, scenario)
