"""The multipath profile over real sockets: it is a transport like any other, and one path may fail."""

import pytest

from agents.nic.sockets import Sender
from agents.nic.system_calls import SocketAddress
from emulator.control.observations import join_ends
from emulator.errors import HostError
from emulator.roce.constants import FIRST_SOURCE_PORT
from emulator.roce.wire.headers import Buffer
from tests.integration.roce_bed import RoceBed, run
from tests.integration.transport_conformance import CASES, Case
from tests.support.full import variant

SPRAYED = {"multipath": 4}


@pytest.mark.parametrize(
    "options",
    [
        SPRAYED,
        pytest.param({"multipath": 4, "payload": "random", "path_mtu": 256}, marks=variant),
        pytest.param({"multipath": 9, "entropy": "batch", "qps": 2, "ecn": "off"}, marks=variant),
    ],
    ids=str,
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance(case: Case, options: dict[str, object]) -> None:
    run(case, agents=2, **options)


async def test_packets_take_the_paths_in_turn() -> None:
    async with RoceBed(agents=1, **SPRAYED, message_bytes=100 << 10, qp_timeout=22).ranks() as (bed, a, b):
        a.send(1, [(7, 100 << 10)])
        await bed.until(lambda: len(b.arrivals(0)) == 1 and len(a.acknowledgements(1)) == 1)
        facts = bed.transports[0].facts()
        assert [facts[f"multipath.path{path}.packets"].value for path in range(4)] == [25] * 4
        a.send(1, [(tag, size) for tag in range(8) for size in (0, 1)])  # control, and transfers of one packet
        await bed.until(lambda: len(a.acknowledgements(1)) == 17)
        facts = bed.transports[0].facts()
        assert [facts[f"multipath.path{path}.packets"].value for path in range(4)] == [25 + 4] * 4
        (flow,) = (row for row in join_ends([*a.endpoint.counters(), *b.endpoint.counters()]) if row.bytes)
        assert (flow.packets, flow.retransmits, flow.source_port) == (108, 0, None)


async def test_a_dark_path_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    dark, send, send_whole = FIRST_SOURCE_PORT + 2, Sender.send, Sender.send_whole

    def send_or_lose(self: Sender, *args: object, **more: object) -> bool:
        return self.port == dark or send(self, *args, **more)  # type: ignore[arg-type]

    def send_whole_or_lose(self: Sender, datagram: Buffer, to: SocketAddress) -> None:
        if self.port != dark:
            send_whole(self, datagram, to)

    monkeypatch.setattr(Sender, "send", send_or_lose)
    monkeypatch.setattr(Sender, "send_whole", send_whole_or_lose)
    async with RoceBed(agents=1, **SPRAYED, message_bytes=64 << 10, qp_timeout=14).ranks() as (bed, a, b):
        for tag in range(20):
            a.send(1, [(tag, 300 << 10)])
        await bed.until(lambda: len(a.acknowledgements(1)) == 20)
        assert b.arrivals(0) == [(tag, 300 << 10) for tag in range(20)]
        assert bed.transports[0].facts()["multipath.path2.retirements"].value != 0


async def test_flow_labels_take_ipv6() -> None:
    async with RoceBed(agents=1, **SPRAYED, entropy_field="flow-label") as bed:
        with pytest.raises(HostError, match="IPv4, which has none"):
            await bed.connected(1)
