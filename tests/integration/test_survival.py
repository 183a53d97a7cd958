"""Ranks with two addresses that outlive the loss of a path, on real sockets whose filters lose what comes."""

import ctypes
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agents.transports.roce.endpoint import FIRST_QPN
from emulator.results.run_folder.manifest import COMPLETE
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from tests.integration.roce_bed import RoceBed
from tests.support.command import charkha
from tests.support.loopback import NET

SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27  # asm-generic/socket.h
DROP_ALL = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))  # BPF_RET | BPF_K, 0 bytes
RETRIES = {"qp_timeout": 9, "retry_count": 2}  # 2 ms, then longer ones
SIZES = (1, 100, 50_000, 0, 300_000, 3000)


def lose(*sockets: socket.socket) -> None:
    """From now on nothing arrives there."""
    for one in sockets:
        program = struct.pack("=HxxxxxxQ", 1, ctypes.addressof(DROP_ALL))
        one.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def mend(*sockets: socket.socket) -> None:
    """What arrives is received again."""
    for one in sockets:
        one.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)


class TwoPaths:
    """Two connected ranks."""

    def __init__(self, bed: RoceBed, ranks: Iterable[Any]) -> None:
        self.bed, self.ranks, self._tag = bed, list(ranks), 0
        self.ends = [one.endpoint for one in self.ranks]
        self.primary = [end.nic._socket for end in self.ends]
        self.alternate = [end.alternate._socket for end in self.ends]

    @property
    def moves(self) -> list[list[str]]:
        """Of each rank."""
        return [["back" if one.is_back else "away" for one in end.migrations()] for end in self.ends]

    async def exchange(self) -> None:
        """Transfers of all kinds in both directions, each of which arrives once, in order."""
        sent = [(self._tag + number, size) for number, size in enumerate(SIZES, 1)]
        before = [len(one.arrivals(1 - number)) for number, one in enumerate(self.ranks)]
        self._tag += len(sent)
        for number, one in enumerate(self.ranks):
            one.send(1 - number, sent)

        def new() -> list[list[tuple[int, int]]]:
            return [one.arrivals(1 - number)[before[number] :] for number, one in enumerate(self.ranks)]

        def is_acknowledged() -> bool:
            return all(self._tag in one.acknowledgements(1 - number) for number, one in enumerate(self.ranks))

        await self.bed.until(lambda: all(len(one) >= len(sent) for one in new()) and is_acknowledged())
        for found in new():
            assert sorted(found) == sent
            assert [one for one in found if one[1]] == [one for one in sent if one[1]]


@asynccontextmanager
async def two_paths(agents: int = 2, **options: object) -> AsyncIterator[TwoPaths]:
    async with RoceBed(agents, **RETRIES, survive="on", **options) as bed:
        for transport in bed.transports:
            transport.use_alternates({rank: f"{NET}.1.{rank + 1}" for rank in range(2)})
        yield TwoPaths(bed, await bed.connected(2))


@pytest.mark.parametrize("agents", [1, 2], ids=["local peers", "two agents"])
@pytest.mark.parametrize("qps", [1, 3])
async def test_transfers_outlive_the_loss_of_a_path_and_return_to_it(agents: int, qps: int) -> None:
    async with two_paths(agents, qps=qps) as pair:
        await pair.exchange()
        assert pair.moves == [[], []]
        lose(*pair.primary)
        await pair.exchange()
        assert pair.moves == [["away"], ["away"]]
        await pair.exchange()
        assert pair.moves == [["away"], ["away"]]
        mend(*pair.primary)
        await pair.bed.until(lambda: pair.moves == [["away", "back"], ["away", "back"]])
        lose(*pair.alternate)
        await pair.exchange()
        assert pair.moves == [["away", "back"], ["away", "back"]]
        for end in pair.ends:
            assert not any(row.copies or row.dropped_icrc or row.dropped_header for row in end.counters())


async def test_an_end_that_only_receives_follows_its_peer_before_it_loses_anything() -> None:
    async with two_paths() as pair:
        a, b = pair.ranks
        a.send(1, [(1, 5000)])
        await pair.bed.until(lambda: a.acknowledgements(1) == [1])
        lose(*pair.primary)
        a.send(1, [(2, 5000)])
        await pair.bed.until(lambda: a.acknowledgements(1) == [1, 2])
        assert pair.moves == [["away"], ["away"]]
        assert not any(row.timeouts for row in pair.ends[1].counters())
        b.send(0, [(3, 5000)])
        await pair.bed.until(lambda: b.acknowledgements(0) == [3])
        assert not any(row.timeouts for row in pair.ends[1].counters())


async def test_the_loss_of_one_direction_moves_both_ends() -> None:
    async with two_paths() as pair:
        await pair.exchange()
        lose(pair.primary[1])
        await pair.exchange()
        assert pair.moves == [["away"], ["away"]]


async def test_the_loss_of_both_paths_ends_the_run_as_that_of_an_only_one() -> None:
    async with two_paths() as pair:
        a, _ = pair.ranks
        lose(*pair.primary, *pair.alternate)
        a.send(1, [(1, 5000)])
        await pair.bed.until(lambda: bool(a.reasons))
        assert a.reasons == ["no answer after 2 retries (timeout 2.1 ms, stretched when repeated), on both paths"]


async def test_an_alternate_address_takes_packets_of_the_second_address_of_the_peer_alone() -> None:
    async with two_paths() as pair:
        qpn = FIRST_QPN + 1  # towards rank 0, not made yet
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forger:
            forger.bind((f"{NET}.0.1", 0))  # the first one of the peer
            forger.sendto(bytes(4) + qpn.to_bytes(4) + bytes(24), (f"{NET}.1.2", 4791))
        await pair.bed.until(lambda: pair.bed.transports[1].drops["stranger"] == 1)
        assert list(pair.ends[1].channels) == []


TWO_PORTS = """hosts:
  - {name: h0, interfaces: [{name: eth0, address: NET.2.1}, {name: eth1, address: NET.3.1}]}
  - {name: h1, interfaces: [{name: eth0, address: NET.2.2}, {name: eth1, address: NET.3.2}]}
"""


def test_a_run_with_second_addresses_in_which_nothing_is_lost_is_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TWO_PORTS.replace("NET", NET))
    played = ("bench", "all_reduce", "-n", 2, "-b", "64K", "-e", "64K", "--topology", "t.yaml", "--out", "run")
    finished = charkha(*played, "--survive", cwd=tmp_path)
    assert finished.code == 0, finished.stderr
    run = read_run(tmp_path / "run")
    assert run.manifest.status == COMPLETE
    assert run.manifest.parameters["roce.survive"].value is True
    assert run.table(RunTable.EVENTS).num_rows == 0
