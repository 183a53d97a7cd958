"""Runs with a hostile agent or a hostile controller, in a namespace with a capture: where did frames go?

    python -m lab.benchmarks.hostile_runs [--count 200]

The modes of tests/support/hostile_modes.py take turns. The namespace has a way out, by a default route; prints how
runs ended if not as they must, and how many frames left: the topology is all on loopback. Exit code 1 if there are any.
Needs root, tcpdump and tshark.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import cycle, islice
from pathlib import Path

from tests.support.hostile_modes import AGENT_MODES, CONTROLLER_MODES, HOSTILE, play, session_plan
from tests.support.namespaces import Namespace, captured, namespace

_CONTROL = "203.0.113.9"
"""One frame is sent there: the capture sees what leaves."""
_GATEWAY = "192.168.7.9"
_INSIDE = "CHARKHA_HOSTILE_RUNS_INSIDE"


def _way_out(place: Namespace) -> None:
    place.run("ip", "link", "add", "out0", "type", "veth", "peer", "name", "out1")
    for name in ("out0", "out1"):
        place.run("ip", "link", "set", name, "up")
    place.run("ip", "address", "add", "192.168.7.1/24", "dev", "out0")
    place.run("ip", "neighbour", "add", _GATEWAY, "lladdr", "02:00:00:00:00:09", "dev", "out0")
    place.run("ip", "route", "add", "default", "via", _GATEWAY)


def _destinations(capture: Path) -> Counter[str]:
    words = ["tshark", "-n", "-r", str(capture), "-T", "fields", "-E", "occurrence=f", "-e", "ip.dst"]
    return Counter(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


async def _play_all(count: int) -> int:
    """In the namespace; returns how many ended other than they must."""
    modes = [*((True, *one) for one in AGENT_MODES.items()), *((False, *one) for one in CONTROLLER_MODES.items())]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        plan = session_plan(Path(folder) / "trace")
        for is_agent, name, mode in islice(cycle(modes), count):
            ends = await play(plan, mode, is_agent=is_agent)
            said = ends.controller if is_agent else f"{ends.agents[HOSTILE]}\n{ends.controller}"
            if re.search(mode.says, said) is None:
                wrong += 1
                print(f"{'agent' if is_agent else 'controller'} {name}: {said!r}", flush=True)
    return wrong


def main() -> int:
    """Play them; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    args = parser.parse_args()
    if os.environ.get(_INSIDE):
        return min(1, asyncio.run(_play_all(args.count)))
    began = time.monotonic()
    with namespace() as place, tempfile.TemporaryDirectory() as folder:
        _way_out(place)
        path = Path(folder) / "any.pcap"
        with captured(place, "out0", path, snap_bytes=128, only="ip") as capture:
            words = [*place.prefix, sys.executable, "-m", "lab.benchmarks.hostile_runs", "--count", str(args.count)]
            code = subprocess.run(words, env={**os.environ, _INSIDE: "1"}, check=False).returncode
            send = f"import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('{_CONTROL}', 9))"
            place.run(sys.executable, "-c", send)
        found = _destinations(path)
    is_seen = found.pop(_CONTROL, 0) == 1
    print(
        f"{args.count} hostile runs in {time.monotonic() - began:.0f} s: {found.total():,} frames left "
        f"{', '.join(found)}, the capture lost {capture.dropped}"
    )
    return int(not is_seen or bool(found) or code != 0)


if __name__ == "__main__":
    sys.exit(main())
