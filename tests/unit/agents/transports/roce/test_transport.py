"""A transport before it opens a socket: keys, facts, pacers. tests/integration/test_transport_roce.py has the rest."""

from collections.abc import Iterator
from contextlib import contextmanager

from agents.transports.base import RankPort
from agents.transports.roce.transport import RoceTransport
from emulator.roce.options import RoceOptions


@contextmanager
def opened(transport: RoceTransport) -> Iterator[RoceTransport]:
    try:
        yield transport
    finally:
        transport.close()
        transport.close()


async def test_agents_of_a_run_have_the_same_key_and_those_of_other_runs_do_not() -> None:
    def key(run: str, seed: int) -> int:
        with opened(RoceTransport(run=run, seed=seed)) as one:
            assert one._rkey == one._seed & 0xFFFFFFFF
            return one._seed

    assert key("a", 1) == key("a", 1)
    assert len({key("a", 1), key("b", 1), key("a", 2)}) == 3


async def test_facts_name_buffers_offloads_and_how_much_is_verified() -> None:
    with opened(RoceTransport(options=RoceOptions(verify_every=8))) as one:
        facts = one.facts()
        assert facts["verified_share"].value == 1 / 8
        assert facts["sending"].value == "UDP_SEGMENT"
        one.context.is_cutting = False
        assert one.facts()["sending"].value == "single datagrams"
        one.context.drops["stranger"] += 2
        assert one.facts()["dropped.stranger"].value == 2


async def test_random_payload_is_verified_in_full() -> None:
    with opened(RoceTransport(options=RoceOptions(payload="random", verify_every=8))) as one:
        assert one.facts()["verified_share"].value == 1
        assert not one.context.payload.is_constant


async def test_reasons_without_drops_are_not_listed() -> None:
    with opened(RoceTransport()) as one:
        assert one.drops == {}


async def test_ranks_of_a_port_share_its_pacer() -> None:
    with opened(RoceTransport()) as one:
        shared = RankPort(number=1, line_rate_bps=10**9, cap_bps=10**9)
        assert one._pacer_of(shared, is_v6=False) is one._pacer_of(shared, is_v6=False)
        assert one._pacer_of(RankPort(number=2, cap_bps=10**9), is_v6=False) is not one._pacer_of(shared, is_v6=False)
        assert one._pacer_of(RankPort(number=3), is_v6=False) is None
