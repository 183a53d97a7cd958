"""What agents with `--max-rate` send in any second, whatever their controller says: counted on the wire.

    python -m lab.benchmarks.rate_limit [--rate 10Mbit] [--seconds S] [MODE ...]

Needs root. Two agents and a controller play in a network namespace of their own, over its loopback, whose frames are
captured and counted by sender. The controller is hostile: it names the limit of the owner as the cap of one port that
all ranks share, so that the agents accept it, and a line rate far above. Prints, for each mode and agent, the largest
share of the limit in any window of 1 s; exit code 1 above 1.02. Transports and flows that cannot pace are refused.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from emulator.cli.main import main as charkha
from emulator.control import conversation as control
from emulator.control.wire.descriptions import Sealer
from emulator.planner.network.port_shares import PortShare
from emulator.roce.options import RoceOptions
from emulator.units import parse_rate

MOST_SHARE = 1.02
_WINDOW_S = 1.0
_START_S = 60.0
_PORT, _IN_NAMESPACE = 4790, "CHARKHA_RATE_LIMIT"
_HOSTS = {"a0": "127.1.0.0/24", "a1": "127.2.0.0/24"}
_PACKET_OUTGOING, _SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 4, 35, 33
_STOPPED_S, _RUNNING_S = 0.3, 1.7
_BACKGROUND = "from=a0,to=a1,rate=100Mbit"
_REDUCE = ("--min-bytes", "4M", "--max-bytes", "4M")
MODES: dict[str, Sequence[str]] = {
    "honest": (*_REDUCE, "--rate-cap", "{rate}"),
    "payload": _REDUCE,
    "control messages": ("--min-bytes", "8", "--max-bytes", "8", "--iterations", "1000000"),
    "agents stopped at times": _REDUCE,
    "zmq": (*_REDUCE, "--transport", "zmq"),
    "background": (*_REDUCE, "--background", _BACKGROUND),
}
REFUSED = ("zmq", "background")


class Capture(threading.Thread):
    """Frames to the ranks, by the /24 they come from: time in s and bytes, Ethernet header included."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.frames: dict[str, list[tuple[float, int]]] = defaultdict(list)
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._socket.bind(("lo", 0))
        self._socket.settimeout(0.2)
        self._is_over = False

    def run(self) -> None:
        """Receive until the end."""
        while not self._is_over:
            with contextlib.suppress(TimeoutError):
                data, ancillary, _, address = self._socket.recvmsg(64, 64, socket.MSG_TRUNC)
                if address[2] == _PACKET_OUTGOING and data[12:14] == b"\x08\x00" and data[27] != 0:
                    at_s, at_ns = struct.unpack("qq", ancillary[0][2])
                    length = 14 + struct.unpack_from("!H", data, 16)[0]
                    self.frames[socket.inet_ntoa(data[26:29] + b"\0")].append((at_s + at_ns * 1e-9, length))

    def stop(self) -> None:
        """End it; the kernel must not have dropped any frame.

        Raises:
            SystemExit: it has.
        """
        self._is_over = True
        self.join()
        _, dropped = struct.unpack("II", self._socket.getsockopt(263, 6, 8))  # SOL_PACKET, PACKET_STATISTICS
        self._socket.close()
        if dropped:
            raise SystemExit(f"the capture lost {dropped} frames")


def largest_bps(frames: Sequence[tuple[float, int]]) -> float:
    """The most that came in any window of 1 s, bit/s."""
    times, sizes = (np.array(column) for column in zip(*frames, strict=True))
    total = np.concatenate(([0], np.cumsum(sizes)))
    ends = np.searchsorted(times, times + _WINDOW_S, side="left")
    return float(np.max(total[ends] - total[:-1])) * 8 / _WINDOW_S


def hostile(rate_bps: int) -> None:
    """From now on setups of this process say what agents want to hear."""
    encode = Sealer.encode

    def changed(self: Sealer, value: control.ControllerValue, job: int | None) -> bytes:
        if isinstance(value, control.Setup):
            value = replace(value, jobs={number: _greedy(one, rate_bps) for number, one in value.jobs.items()})
        return encode(self, value, job)

    Sealer.encode = changed  # type: ignore[method-assign]


def _greedy(job: control.JobSetup, rate_bps: int) -> control.JobSetup:
    ranks = [replace(one, port=PortShare(0, 10**12, rate_bps)) for one in job.ranks]
    options = replace(job.options, rate_cap_bps=0) if isinstance(job.options, RoceOptions) else job.options
    return replace(job, ranks=ranks, options=options)


def measure(mode: str, folder: Path, args: argparse.Namespace) -> bool:
    """Play one mode for a time, and print what was sent; whether the limit held."""
    folder.mkdir()
    topology = folder / "two.yaml"
    hosts = [{"name": name, "per_rank": prefix, "rate": "1Gbit"} for name, prefix in _HOSTS.items()]
    topology.write_text(json.dumps({"name": "two", "hosts": hosts, "agents": {name: name for name in _HOSTS}}))
    capture = Capture()
    capture.start()
    with contextlib.ExitStack() as stack:
        agents = [stack.enter_context(_agent(name, args.rate, folder)) for name in _HOSTS]
        options = [one.replace("{rate}", args.rate) for one in MODES[mode]]
        command = ["bench", "all_reduce", "--ranks", "4", "--listen", f"127.0.0.1:{_PORT}", "--topology", str(topology)]
        who = "honest" if mode == "honest" else str(parse_rate(args.rate))
        started = (
            sys.executable,
            "-m",
            __spec__.name,
            "--controller",
            who,
            *command,
            *options,
            "--out",
            str(folder / "run"),
        )
        controller = stack.enter_context(_process(started, folder / "controller.log"))
        begin_s = time.monotonic()
        while not capture.frames and controller.poll() is None and time.monotonic() < begin_s + _START_S:
            time.sleep(0.1)
        end_s = time.monotonic() + args.seconds
        while time.monotonic() < end_s and controller.poll() is None:
            if "stopped" in mode:
                for number, pause_s in ((signal.SIGSTOP, _STOPPED_S), (signal.SIGCONT, _RUNNING_S)):
                    for agent in agents:
                        agent.send_signal(number)
                    time.sleep(pause_s)
            time.sleep(0.1)
        code = controller.poll()
    capture.stop()
    return _print(mode, code, capture, folder, parse_rate(args.rate))


def _print(mode: str, code: int | None, capture: Capture, folder: Path, rate_bps: int) -> bool:
    if mode in REFUSED:
        said = (folder / "controller.log").read_text().strip().splitlines()
        is_well = code not in (None, 0) and not capture.frames
        print(f"{'ok ' if is_well else 'BAD'} {mode}: exit code {code}, {said[-1:]}", flush=True)
        return is_well
    shares = {prefix: largest_bps(frames) / rate_bps for prefix, frames in sorted(capture.frames.items())}
    is_well = len(shares) == len(_HOSTS) and max(shares.values()) <= MOST_SHARE
    shown = ", ".join(f"{share:.4f} from {name} ({len(capture.frames[name])} frames)" for name, share in shares.items())
    print(f"{'ok ' if is_well else 'BAD'} {mode}: {shown or (folder / 'controller.log').read_text()}", flush=True)
    return is_well


def _agent(name: str, rate: str, folder: Path) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    options = ("--controller", f"127.0.0.1:{_PORT}", "--name", name, "--max-rate", rate)
    return _process((sys.executable, "-P", "-m", "emulator", "agent", "start", *options), folder / f"{name}.log")


@contextlib.contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "CHARKHA_TOKEN": "a-token-for-a-namespace"}
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def main() -> int:
    """Measure and print."""
    if sys.argv[1:2] == ["--controller"]:
        if sys.argv[2] != "honest":
            hostile(int(sys.argv[2]))
        return charkha(sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modes", metavar="MODE", nargs="*", help=f"of {', '.join(MODES)} (default: all)")
    parser.add_argument("--rate", default="10Mbit")
    parser.add_argument("--seconds", type=float, default=15)
    args = parser.parse_args()
    if _IN_NAMESPACE not in os.environ:
        os.environ[_IN_NAMESPACE] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, "-m", __spec__.name, *sys.argv[1:]])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ethtool", "-K", "lo", "tx-udp-segmentation", "off", "gso", "off", "tso", "off"], check=True)
    with tempfile.TemporaryDirectory(prefix="charkha-rate-") as folder:
        results = [measure(mode, Path(folder, mode), args) for mode in args.modes or MODES]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
