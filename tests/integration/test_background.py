"""Both ends of background flows on loopback: what is sent arrives and is counted, and all ends when it should."""

import asyncio
import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.annexes.background.actor import BackgroundActor
from emulator.control.flows import FlowFigures
from emulator.errors import HostError, RunError
from emulator.flows.background import BackgroundTask, Schedule, WireSize
from emulator.results.run_folder.reader import read_run
from emulator.results.statistics.summary import summarise
from emulator.roce.options import RoceOptions
from tests.support.command import succeed
from tests.support.loopback import NET

SENDER, RECEIVER = f"{NET}.0.1", f"{NET}.0.2"
SCHEDULE = Schedule(
    pattern="constant", sizes="fixed", size_bytes=3000, rate_bps=25_000_000, peak_bps=50_000_000, on_ns=10**6,
    wire=WireSize(1440, 98), seed=(1, 0),
)  # fmt: skip
PLAYED_S = 0.2
OPTIONS = RoceOptions(path_mtu=1024)


def ends(transport: str, options: RoceOptions = OPTIONS, **schedule: Any) -> tuple[BackgroundActor, BackgroundActor]:
    """The sender and the receiver of a flow."""
    sends = BackgroundTask(
        is_sender=True, transport=transport, address=SENDER, peer_address=RECEIVER, port=20_000 + os.getpid() % 9999,
        tag=0x8000_0000 + os.getpid(), schedule=replace(SCHEDULE, **schedule), options=options,
    )  # fmt: skip
    receives = replace(sends, is_sender=False, address=RECEIVER, peer_address=SENDER)
    return BackgroundActor(sends, None), BackgroundActor(receives, None)


async def played(
    sender: BackgroundActor, receiver: BackgroundActor, reached: Callable[[FlowFigures], bool] = lambda _: True
) -> None:
    """Play a flow for a while and until the sender has reached something, to its end."""
    await asyncio.gather(sender.prepare(), receiver.prepare())
    at_ns = time.monotonic_ns() + 2_000_000
    playing = [asyncio.create_task(one.play(at_ns)) for one in (sender, receiver)]
    await asyncio.sleep(PLAYED_S)
    while not reached(figures(sender)):  # noqa: ASYNC110 figures are counted, not told
        await asyncio.sleep(0.01)
    sender.end()
    receiver.end()
    await asyncio.gather(*playing)
    for one in (sender, receiver, sender):
        one.close()


def figures(actor: BackgroundActor) -> FlowFigures:
    (found,) = actor.figures()
    return found


@pytest.mark.parametrize("transport", ["udp", "tcp", "roce"])
async def test_what_is_offered_is_sent_and_arrives(transport: str) -> None:
    sender, receiver = ends(transport, sizes="hadoop")
    await played(sender, receiver, lambda sent: sent.messages >= 0.9 * (sent.offered_messages or 0))
    sent, received = figures(sender), figures(receiver)
    assert (sent.direction, received.direction) == ("sent", "received")
    assert 0 < sent.messages == received.messages <= (sent.offered_messages or 0)
    assert sent.bytes == received.bytes
    timed = received if transport == "udp" else sent
    assert timed.completions == sent.messages
    assert (timed.completion_median_ns or 0) > 0
    assert sent.lateness_median_ns is not None
    if transport == "udp":
        assert (received.lost, received.packets) == (0, sent.packets)


async def test_a_schedule_that_cannot_be_kept_is_offered_all_the_same() -> None:
    sender, receiver = ends("tcp", size_bytes=1 << 20, rate_bps=400_000_000_000)
    await played(sender, receiver)
    sent = figures(sender)
    assert sent.bytes < 0.5 * (sent.offered_bytes or 0)
    assert figures(receiver).bytes <= sent.bytes + (1 << 20)


async def test_datagrams_that_are_missing_and_those_of_strangers_are_told_apart() -> None:
    sender, receiver = ends("udp")
    await receiver.prepare()
    port = 20_000 + os.getpid() % 9999
    playing = asyncio.create_task(receiver.play(time.monotonic_ns()))
    await asyncio.sleep(0)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
    ):
        own.bind((SENDER, 0))
        head = (0x8000_0000 + os.getpid()).to_bytes(4, "big")

        def datagram(total: int, number: int, message: int) -> bytes:
            numbers = total.to_bytes(4, "big") + number.to_bytes(8, "big") + message.to_bytes(4, "big")
            return head + numbers + bytes(12)

        for total, number, message in ((2, 0, 0), (2, 1, 0), (3, 2, 1), (3, 4, 1)):  # number 3 is lost
            own.sendto(datagram(total, number, message) + bytes(10), (RECEIVER, port))
        own.sendto(bytes(50), (RECEIVER, port))  # another run's
        own.sendto(b"short", (RECEIVER, port))
        stranger.sendto(datagram(2, 9, 9), (RECEIVER, port))  # another address
        own.sendto(datagram(0, 6, 0), (RECEIVER, port))  # the end: 6 datagrams, so number 5 is lost as well
    receiver.end()
    await playing
    found = figures(receiver)
    assert (found.messages, found.bytes, found.packets, found.lost) == (1, 20, 4, 2)
    assert [one.lost for one in found.gaps] == [1, 1]
    receiver.close()
    sender.close()


@pytest.mark.parametrize("transport", ["tcp", "roce"])
async def test_an_end_that_dies_fails_the_flow(transport: str) -> None:
    sender, receiver = ends(transport, options=RoceOptions(path_mtu=1024, qp_timeout=10))
    await asyncio.gather(sender.prepare(), receiver.prepare())
    playing = asyncio.create_task(sender.play(time.monotonic_ns()))
    await asyncio.sleep(0.05)
    receiver.close()
    with pytest.raises(RunError, match=RECEIVER):
        await playing
    sender.close()


@pytest.mark.parametrize("transport", ["udp", "tcp", "roce"])
async def test_closing_stops_sending_at_once(transport: str) -> None:
    sender, receiver = ends(transport)
    await asyncio.gather(sender.prepare(), receiver.prepare())
    playing = asyncio.create_task(sender.play(time.monotonic_ns()))
    await asyncio.sleep(0.05)
    playing.cancel()
    sender.close()
    await asyncio.gather(playing, return_exceptions=True)
    sent = figures(sender)
    await asyncio.sleep(0.05)
    assert figures(sender).bytes == sent.bytes
    receiver.close()


@pytest.mark.parametrize("transport", ["udp", "tcp", "roce"])
async def test_an_address_that_is_not_here_is_named_before_any_traffic(transport: str) -> None:
    _, receiver = ends(transport)
    task = replace(receiver._task, address="198.18.77.1")
    with pytest.raises(HostError, match=r"198\.18\.77\.1"):
        await BackgroundActor(task, None).prepare()


def test_a_run_plays_it_beside_its_job_and_counts_it_apart(tmp_path: Path) -> None:
    job = ("bench", "all_reduce", "-n", 2, "-b", "64K", "-e", "64K", "--iterations", 3)
    where = ("--agents", 1, "--out", "run", "--json")
    flow = "from=rank 1,to=rank 0,rate=30Mbit,transport=udp,size=1000,name=noise"
    (row,) = succeed(*job, *where, "--background", flow, cwd=tmp_path).document["background"]
    assert (row["name"], row["sender"], row["receiver"], row["pattern"]) == ("noise", "rank 1", "rank 0", "poisson")
    assert row["sent_messages"] == row["received_messages"] > 0
    run = read_run(tmp_path / "run")
    assert run.manifest.parameters["background.0"].value == (
        "rank 1 to rank 0 over udp, 30 Mbit/s on the wire, poisson, fixed sizes of 1000 B in the mean, DSCP 0"
    )
    (spec,) = run.manifest.spec["background"]
    assert (spec["from"], spec["rate"]) == ("rank 1", 30_000_000)
    assert summarise(run).totals.payload_bytes == 2 * 64 * 1024
    assert "Background traffic" in (tmp_path / "run" / "report.html").read_text()
