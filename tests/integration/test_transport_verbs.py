"""The verbs transport with the software NIC at both ends; tests/guest has it with real RDMA devices."""

import asyncio
import contextlib
import json
from functools import partial
from pathlib import Path

import pytest

from agents.annexes.verbs.transport import VerbsTransport
from emulator.host.nic import has_devices
from emulator.transports.registry import VerbsOptions
from tests.integration.socket_bed import SocketBed, play
from tests.integration.transport_conformance import CASES, Case
from tests.support.command import charkha, succeed
from tests.support.full import variant
from tests.support.loopback import NET


class VerbsBed(SocketBed[VerbsTransport]):
    """A number of agents with the software NIC."""

    def __init__(self, agents: int, *, message_bytes: int = 4096, slots: int = 16) -> None:
        super().__init__()
        self.message_bytes = message_bytes
        options = VerbsOptions(software_nic="all", ring_slots=slots)
        self.transports = [
            VerbsTransport(message_bytes=message_bytes, options=options, run="conformance") for _ in range(agents)
        ]

    def host(self, rank: int) -> str:
        return f"{NET}.0.{rank + 1}"


run = partial(play, VerbsBed)


@pytest.mark.parametrize("slots", [1, pytest.param(16, marks=variant)])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance(case: Case, slots: int) -> None:
    run(case, slots=slots)


GARBAGE = (
    b"\n",
    b"{}\n",
    b'{"type":"request"}\n',
    b"\x00" * 100_000,
    json.dumps({"type": "request", "version": 1, "run": "0", "rank": 1, "peer": 0, "end": {"qpn": 1 << 24}}).encode()
    + b"\n",
)


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_strangers_at_the_tcp_port_are_closed_and_change_nothing(garbage: bytes) -> None:
    async def scenario(bed: VerbsBed) -> None:
        a, b = await bed.connected(2)
        reader, writer = await asyncio.open_connection(a.endpoint.address.host, a.endpoint.address.port)
        writer.write(garbage)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        a.send(1, [(1, 10)])
        await bed.until(lambda: a.acknowledgements(1) == [1])
        assert b.arrivals(0) == [(1, 10)]

    run(scenario)


def test_a_run_over_software_ends_says_what_they_are(tmp_path: Path) -> None:
    words = ("bench", "all_reduce", "-n", "4", "-b", "1K,100K", "--iterations", "2", "--no-report", "--out", "run")
    succeed(*words, "--transport", "verbs", "--software-nic", "all", cwd=tmp_path)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["hosts"][0]["transport"]["rank_0.device"]["value"] == "software NIC"
    assert manifest["parameters"]["verbs.ring_slots"] == {"value": 16, "unit": ""}


def test_a_host_without_rdma_devices_is_told_what_to_do(tmp_path: Path) -> None:
    if has_devices():
        pytest.skip("this host has an RDMA device")
    done = charkha("bench", "all_reduce", "-n", "2", "--transport", "verbs", "--out", "run", cwd=tmp_path)
    assert done.code == 3
    assert "this host has no RDMA device: install rdma-core" in done.stderr
    assert not (tmp_path / "run").exists()
    assert "Traceback" not in done.stderr
