"""Connections by rdma_cm between two software NICs on loopback."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from agents.annexes.peer.cm import Message, Req, SidrReq, of_datagrams, pack_mad, service_id
from agents.annexes.peer.connections import ConnectionManager, GeneralServices, Local
from agents.nic.nic import StandaloneNic
from emulator.errors import RemoteProtocolError
from emulator.roce.connection.qp_facts import gid_of
from emulator.roce.options import RoceOptions
from emulator.roce.wire.psn import Psn
from tests.support.loopback import NET

HOSTS = (f"{NET}.0.203", f"{NET}.0.204")
PORT = 7174
ACTIVE, PASSIVE = Local(0x123, Psn(0xFFFFF0)), Local(0x456, Psn(77), max_rd_atomic=4)


def accept(request: Req, host: str) -> Local | None:
    assert host == HOSTS[0]
    return PASSIVE


@contextlib.asynccontextmanager
async def two_managers(**settings: float) -> AsyncIterator[tuple[ConnectionManager, ConnectionManager]]:
    options = RoceOptions.parse({"path_mtu": "1024"})
    with StandaloneNic(HOSTS[0], options) as a, StandaloneNic(HOSTS[1], options) as b:
        async with asyncio.timeout(60):
            yield ConnectionManager(a.nic, **settings), ConnectionManager(b.nic, **settings)


async def test_both_ends_learn_of_each_other_and_part() -> None:
    async with two_managers() as (a, b):
        b.listen(PORT, accept)
        there = await a.connect(HOSTS[1], PORT, ACTIVE)
        here = await b.accepted()
        assert (there.peer_qpn, there.send_psn) == (PASSIVE.qpn, PASSIVE.psn)
        assert (here.peer_qpn, here.send_psn, here.host) == (ACTIVE.qpn, ACTIVE.psn, HOSTS[0])
        assert there.max_rd_atomic == here.max_rd_atomic == 4
        assert here.path_mtu == 1024
        await a.disconnect(there)
        await here.ended.wait()
        await b.disconnect(here)


@pytest.mark.parametrize("lost", [0, 1, 2], ids=["request", "answer", "both"])
async def test_a_lost_datagram_is_sent_again(lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    send, drops = GeneralServices.send, {0: {0}, 1: {1}, 2: {0, 2}}[lost]
    sent = 0

    def lossy(gsi: GeneralServices, mad: bytes, to: str) -> None:
        nonlocal sent
        sent += 1
        if sent - 1 not in drops:
            send(gsi, mad, to)

    monkeypatch.setattr(GeneralServices, "send", lossy)
    async with two_managers(resend_s=0.05) as (a, b):
        b.listen(PORT, accept)
        there = await a.connect(HOSTS[1], PORT, ACTIVE)
        here = await b.accepted()
        assert (there.peer_qpn, here.peer_qpn) == (PASSIVE.qpn, ACTIVE.qpn)
        assert b._accepted.empty(), "a request that comes again is not another connection"


async def test_a_port_without_a_listener_rejects() -> None:
    async with two_managers() as (a, _):
        with pytest.raises(RemoteProtocolError, match=rf"{HOSTS[1]} rejects .* port {PORT}: invalid service id"):
            await a.connect(HOSTS[1], PORT, ACTIVE)


async def test_a_peer_that_refuses_is_named() -> None:
    async with two_managers() as (a, b):
        b.listen(PORT, lambda request, host: None)
        with pytest.raises(RemoteProtocolError, match=r"rejects .*: consumer"):
            await a.connect(HOSTS[1], PORT, ACTIVE)


async def test_a_peer_that_is_silent_is_named() -> None:
    async with two_managers(resend_s=0.01) as (a, b):
        b._gsi._nic.close()
        with pytest.raises(RemoteProtocolError, match=rf"port {PORT} of {HOSTS[1]} does not answer: no reply to 8"):
            await a.connect(HOSTS[1], PORT, ACTIVE)


UNRELIABLE = Req(
    local_id=1, service_id=service_id(PORT), guid=1, qpn=0x123, psn=1, responder_resources=1, initiator_depth=1,
    path_mtu=1024, gid=gid_of(HOSTS[0]), peer_gid=gid_of(HOSTS[1]), service=1,
)  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "service"),
    [
        (UNRELIABLE, "an unreliable connection (UC)"),
        (SidrReq(request_id=1, service_id=of_datagrams(service_id(PORT))), "unreliable datagrams (UD)"),
    ],
    ids=["UC", "UD"],
)
async def test_a_peer_that_asks_for_another_transport_service_is_named(request_: Message, service: str) -> None:
    async with two_managers() as (a, b):
        b.listen(PORT, accept)
        a._gsi.send(pack_mad(request_, 1), HOSTS[1])
        with pytest.raises(RemoteProtocolError) as raised:
            await b.accepted()
        assert str(raised.value).startswith(f"{HOSTS[0]} asks for {service}; only reliable connections (RC)")
        there, _ = await asyncio.gather(a.connect(HOSTS[1], PORT, ACTIVE), b.accepted())
        assert there.peer_qpn == PASSIVE.qpn, "others are served"


async def test_a_stranger_gets_no_answer_at_all() -> None:
    options = RoceOptions.parse({"path_mtu": "1024"})
    with StandaloneNic(HOSTS[0], options) as a, StandaloneNic(HOSTS[1], options) as b:
        guarded = ConnectionManager(b.nic, only=f"{NET}.0.205")
        guarded.listen(PORT, accept)
        with pytest.raises(RemoteProtocolError, match="does not answer"):
            await ConnectionManager(a.nic, resend_s=0.01).connect(HOSTS[1], PORT, ACTIVE)


async def test_an_end_that_has_seen_the_other_go_can_still_say_goodbye() -> None:
    async with two_managers() as (a, b):
        b.listen(PORT, accept)
        there = await a.connect(HOSTS[1], PORT, ACTIVE)
        here = await b.accepted()
        await a.disconnect(there)
        await here.ended.wait()
        here.answered.clear()
        await b.disconnect(here, again=True)
        assert here.answered.is_set(), "the other end answers again: its answer may have been lost"
