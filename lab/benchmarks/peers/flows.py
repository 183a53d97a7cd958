"""One flow from a sending to a receiving process: ours, iperf3, ZeroMQ alone, and the kernel's limit.

Goodput is always the receiver's: what it got in the seconds after the warm-up, by its own clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.benchmarks.peers.children import Child, MeasurementFailed, free_port, run_python, running
from lab.benchmarks.peers.subjects import Reading, lacking_command, last_json

SLACK_S = 20
"""What a program may take beyond warm-up and measurement."""
READY_S = 5
HEADER_BYTES = 28
"""Taken as the RoCEv2 headers of a packet for the datagram size of peers: BTH, RETH or immediate data, ICRC."""
MESSAGE_BYTES = 1 << 20
BLOCK_BYTES = 8 << 20
"""What a rank sends in a step of a ring all-reduce of 64 MiB over 8 ranks."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a flow runs, seconds."""

    seconds: float
    warmup_s: float

    @property
    def timeout_s(self) -> float:
        """When to give up."""
        return self.seconds + self.warmup_s + SLACK_S

    def options(self) -> list[object]:
        """As our own programs take it."""
        return ["--seconds", self.seconds, "--warmup", self.warmup_s]


@dataclass(frozen=True, slots=True)
class TransportFlow:
    """A transport of ours: transfers, acknowledged, between two processes. `own`: the transport's options."""

    transport: str
    timing: Timing
    own: Sequence[str] = ()
    transfer_bytes: int = MESSAGE_BYTES

    @property
    def name(self) -> str:
        """See Subject."""
        return self.transport

    def lacking(self) -> str | None:
        """See Subject."""
        return None

    def measure(self) -> Reading:
        """See Subject."""
        options = ["--transport", self.transport, "--size", self.transfer_bytes, *self.timing.options()]
        options += [word for option in self.own for word in ("--option", option)]
        module = "lab.benchmarks.peers.programs.transport_flow"
        return _received(last_json(run_python(module, *options, timeout_s=self.timing.timeout_s)))


@dataclass(frozen=True, slots=True)
class BareBlast:
    """lab/benchmarks/blast.py."""

    datagram_bytes: int
    timing: Timing

    @property
    def name(self) -> str:
        """See Subject."""
        return "bare blast"

    def lacking(self) -> str | None:
        """See Subject."""
        return None

    def measure(self) -> Reading:
        """See Subject."""
        options = ["--datagram", self.datagram_bytes, "--json", *self.timing.options()]
        return _received(last_json(run_python("lab.benchmarks.blast", *options, timeout_s=self.timing.timeout_s)))


@dataclass(frozen=True, slots=True)
class PushPull:
    """ZeroMQ without us: messages of 1 MiB, nothing acknowledged."""

    timing: Timing

    @property
    def name(self) -> str:
        """See Subject."""
        return "ZeroMQ PUSH/PULL"

    def lacking(self) -> str | None:
        """See Subject."""
        return None

    def measure(self) -> Reading:
        """See Subject."""
        options = ["--size", MESSAGE_BYTES, *self.timing.options()]
        module = "lab.benchmarks.peers.programs.push_pull"
        return _received(last_json(run_python(module, *options, timeout_s=self.timing.timeout_s)))


@dataclass(frozen=True, slots=True)
class Iperf3:
    """iperf3 with one stream. `datagram_bytes` None: TCP; else UDP as fast as it goes, in datagrams of that size."""

    timing: Timing
    datagram_bytes: int | None = None

    @property
    def name(self) -> str:
        """See Subject."""
        return "iperf3 TCP" if self.datagram_bytes is None else "iperf3 UDP"

    def lacking(self) -> str | None:
        """See Subject."""
        return lacking_command("iperf3")

    def measure(self) -> Reading:
        """See Subject."""
        port = free_port()
        with running(["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", port]) as server:
            _wait_for_listener(server, port)
            with running(self._client(port)) as client:
                return iperf3_reading(last_json(client.finish(self.timing.timeout_s)))

    def _client(self, port: int) -> Sequence[object]:
        seconds, omitted = math.ceil(self.timing.seconds), math.ceil(self.timing.warmup_s)
        udp = [] if self.datagram_bytes is None else ["-u", "-b", 0, "-l", self.datagram_bytes]
        return ["iperf3", "-c", "127.0.0.1", "-p", port, *udp, "-t", seconds, "-O", omitted, "--json"]


def _wait_for_listener(server: Child, port: int) -> None:
    """iperf3's server says nothing when it is ready; its socket shows in /proc."""
    deadline = time.monotonic() + READY_S
    listening = f"0100007F:{port:04X} 00000000:0000 0A"
    while listening not in Path("/proc/net/tcp").read_text():
        if not server.is_running():
            server.finish(1)
        if time.monotonic() > deadline:
            raise MeasurementFailed(f"iperf3 does not listen after {READY_S} s")
        time.sleep(0.02)


def _received(found: dict[str, Any]) -> Reading:
    return Reading(found["received_bytes"] * 8 / found["seconds"], found)


def iperf3_reading(found: dict[str, Any]) -> Reading:
    """The receiver's rate in a client's JSON, after the omitted seconds.

    Raises:
        MeasurementFailed: iperf3 reports an error.
    """
    if "error" in found:
        raise MeasurementFailed(f"iperf3: {found['error']}")
    received = found["end"]["sum_received"]
    details = {key: received[key] for key in ("bytes", "seconds", "lost_packets", "packets") if key in received}
    return Reading(float(received["bits_per_second"]), details)
