"""Ranks of one agent that send to each other: each reads packets of a local peer before more follow."""

import asyncio
import os

import pytest

from tests.integration.roce_bed import RoceBed
from tests.integration.transport_conformance import directory


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: only its receive buffers hold a window")
async def test_a_local_peer_that_connects_late_loses_nothing() -> None:
    async with RoceBed(agents=1, message_bytes=4 << 20, path_mtu=4096, window_bytes=8 << 20, qp_timeout=22) as bed:
        a, b = await bed.listeners(2)
        a.connect(directory([a, b]))
        a.send(1, [(1, 20 << 20)])
        await bed.quiesce()
        b.connect(directory([a, b]))
        await bed.until(lambda: a.acknowledgements(1) == [1])
        assert b.arrivals(0) == [(1, 20 << 20)]
        assert not bed.transports[0].drops
        assert not any(row.retransmits for row in a.endpoint.counters())


@pytest.mark.parametrize("path_mtu", [1024, 4096])
@pytest.mark.parametrize("when", ["any time", "once the rest is prepared"])
@pytest.mark.parametrize("size", [100, 600_000], ids=["single packets", "runs"])
async def test_replies_of_a_local_peer_neither_overtake_nor_damage_packets_being_sent(
    path_mtu: int, size: int, when: str
) -> None:
    async with RoceBed(agents=1, path_mtu=path_mtu, message_bytes=8 << 20, qp_timeout=22).ranks(3) as (bed, a, b, c):
        catch_up, rounds = b.endpoint.nic.catch_up, 0  # type: ignore[attr-defined]

        def interrupted() -> None:
            nonlocal rounds
            requester = a.endpoint._links[1].channel(1).pair.requester  # type: ignore[attr-defined]
            if when == "any time" or (not requester.backlog and not rounds):
                rounds += 1
                a.send(1, [(100 + rounds, size)])
                c.send(1, [(100 + rounds, size)])
            catch_up()

        b.endpoint.nic.catch_up = interrupted  # type: ignore[attr-defined]
        a.send(1, [(1, 6 << 20)])
        await bed.until(lambda: a.acknowledgements(1)[:1] == [1])
        b.endpoint.nic.catch_up = catch_up  # type: ignore[attr-defined]
        expected = [1, *range(101, 101 + rounds)]
        await bed.until(lambda: a.acknowledgements(1) == expected and c.acknowledgements(1) == expected[1:])
        assert rounds >= (3 if when == "any time" else 1)
        assert [tag for tag, _ in b.arrivals(0)] == expected
        assert [tag for tag, _ in b.arrivals(2)] == expected[1:]
        for rank in (a, c):
            assert not any(flow.retransmits for flow in rank.endpoint.counters())
        assert bed.transports[0].drops == {}


async def test_a_failure_while_a_local_peer_catches_up_stalls_no_other_rank() -> None:
    async with RoceBed(agents=1, path_mtu=4096, message_bytes=8 << 20).ranks(4) as (bed, a, b, c, d):
        catch_up, failures = b.endpoint.nic.catch_up, 0  # type: ignore[attr-defined]

        def failing() -> None:
            nonlocal failures
            failures += 1
            if failures == 2:
                raise LookupError("of the player")
            catch_up()

        b.endpoint.nic.catch_up = failing  # type: ignore[attr-defined]
        errors: list[object] = []
        loop = asyncio.get_running_loop()
        handler = loop.get_exception_handler()
        loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
        a.send(1, [(1, 6 << 20)])
        c.send(3, [(1, 6 << 20)])
        await bed.until(lambda: a.acknowledgements(1) == [1] and c.acknowledgements(3) == [1])
        loop.set_exception_handler(handler)
        assert [type(error) for error in errors] == [LookupError]
        assert b.arrivals(0) == d.arrivals(2) == [(1, 6 << 20)]
