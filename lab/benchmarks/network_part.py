"""The network part of all-reduces against a capture in the switch, and what the split costs.

    python -m lab.benchmarks.network_part [--count N] [--topology FILE]
    python -m lab.benchmarks.network_part --cost ROUNDS [--topology FILE]
    python -m lab.benchmarks.network_part --delay PAIRS [--topology FILE]

Needs root, tcpdump and a quiet machine. Two ranks play 4 KiB, 64 KiB and 1 MiB, each N times, in a lab of two hosts at
one switch, while tcpdump captures at both ports of the switch. The capture says when the first frame of a transfer
entered the switch and when its last frame left it. Along the chain that ends last, these times add up to what the
network had; the run says the same by the kernels' time stamps. Exit code 1 if the medians differ by more than 20 µs and
2 %, or the 99th percentiles by more than 60 µs.

With --delay, a process takes the place of the bridge. Groups of 6 runs of 4 KiB in turns are compared: with the
same process twice, and with one that holds the frames of one direction for 100 µs more, which one of the two steps of
an all-reduce crosses. The difference of the network's parts is to be 100 ± 15 µs; the same is to show none.

With --cost, it plays large and small all-reduces with and without the split in turns, and prints both times.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from emulator.annexes.bench_kit.delay_line import LEAST_US, delay_line
from emulator.topology.load import load_topology
from lab.benchmarks.verdicts.trials import TOPOLOGY, charkha, raised

SIZES, PORTS = (4 << 10, 64 << 10, 1 << 20), ("p0", "p1")
PLANTED_US, MOST_PLANTED_ERROR_US, _RUNS = 100, 15.0, 6
MOST_MEDIAN_US, MOST_MEDIAN_SHARE, MOST_P99_US = 20.0, 0.02, 60.0
_TRANSFERS = 2
"""Of either rank in an all-reduce of two: one to reduce, one to gather."""
_FIRST, _ONLY, _ONLY_IMM, _LAST_IMM = 0x06, 0x0A, 0x0B, 0x09
_SERIAL = (1 << 56) - 1
_FRAME_HEADER = struct.Struct("<IIII")
_BTH, _RETH = 14 + 20 + 8, 14 + 20 + 8 + 12
_RUN_S = 500


class Transfer(NamedTuple):
    """One transfer in the switch: first frame in, last frame out, ns."""

    entered_ns: int
    left_ns: int


@contextmanager
def captured(namespace: str, folder: Path) -> Iterator[None]:
    """Capture at both ports of the switch."""
    tcpdumps = []
    for port in PORTS:
        options = (
            "-i",
            port,
            "-s",
            "80",
            "-B",
            "65536",
            "--immediate-mode",
            "--time-stamp-precision=nano",
            "-w",
            folder / f"{port}.pcap",
        )
        command = ("ip", "netns", "exec", namespace, "tcpdump", *map(str, options), "udp dst port 4791")
        tcpdumps.append(subprocess.Popen(command, stderr=subprocess.PIPE))
    try:
        for one in tcpdumps:
            assert one.stderr is not None
            one.stderr.readline()  # "listening on …"
        yield
    finally:
        for one in tcpdumps:
            one.send_signal(signal.SIGINT)
            one.communicate()


def frames(path: Path) -> Iterator[tuple[int, bytes]]:
    """Time in ns and bytes of each frame of a capture of tcpdump."""
    data = path.read_bytes()
    at = 24
    while at + _FRAME_HEADER.size <= len(data):
        seconds, nanoseconds, size, _ = _FRAME_HEADER.unpack_from(data, at)
        at += _FRAME_HEADER.size
        yield seconds * 1_000_000_000 + nanoseconds, data[at : at + size]
        at += size


def transfers(folder: Path) -> dict[int, dict[bytes, list[Transfer]]]:
    """Number of the collective → address of the sender → its transfers, in order."""
    starts: dict[tuple[str, bytes], list[tuple[int, int]]] = defaultdict(list)
    ends: dict[tuple[str, bytes], list[int]] = defaultdict(list)
    for port in PORTS:
        for time_ns, data in frames(folder / f"{port}.pcap"):
            opcode, source = data[_BTH], data[26:30]
            if opcode in (_FIRST, _ONLY, _ONLY_IMM):
                tag, _, size = struct.unpack_from(">QII", data, _RETH)
                if not size:
                    continue
                starts[port, source].append((time_ns, tag & _SERIAL))
            if opcode in (_ONLY_IMM, _LAST_IMM):
                ends[port, source].append(time_ns)
    found: dict[int, dict[bytes, list[Transfer]]] = defaultdict(lambda: defaultdict(list))
    for source in {source for _, source in starts}:
        # It enters at the port of its host, which sees every frame first.
        first, last = sorted(PORTS, key=lambda port, source=source: starts[port, source][0][0])
        for (entered_ns, serial), left_ns in zip(starts[first, source], ends[last, source], strict=True):
            found[serial][source].append(Transfer(entered_ns, left_ns))
    return found


def network_ns(of: dict[bytes, list[Transfer]]) -> int:
    """Along the chain of an all-reduce of two ranks that ends last: its second transfer, and the first of the other."""
    one, other = of.values()
    last, before = (one[1], other[0]) if one[1].left_ns > other[1].left_ns else (other[1], one[0])
    return last.left_ns - last.entered_ns + before.left_ns - before.entered_ns


def measured(run: Path) -> dict[int, tuple[int, int]]:
    """Number of the collective → its size, and the network part that the run says; -1: it does not know."""
    names = ["iteration", "instance", "size_bytes", "network_ns"]
    rows = pq.read_table(run / "samples.parquet", columns=names).to_pylist()
    instances = 1 + max(row["instance"] for row in rows)
    first = min(row["iteration"] for row in rows)
    return {
        (row["iteration"] - first) * instances + row["instance"]: (
            row["size_bytes"],
            -1 if row["network_ns"] is None else row["network_ns"],
        )
        for row in rows
        if row["iteration"] >= 0
    }


def compare(folder: Path, topology: Path, count: int) -> bool:
    """Play, and print a row for each size; whether all agree."""
    namespace = f"charkha-{load_topology(topology, ranks=2).name}-sw0"
    sizes, run = ",".join(map(str, SIZES)), folder / "run"
    with captured(namespace, folder):
        options = ("-n", 2, "-b", sizes, "--iterations", count, "--topology", topology, "--out", run, "--no-report")
        charkha("bench", "all_reduce", *options, timeout_s=_RUN_S)
    on_wire, said = transfers(folder), measured(run)
    are_right = True
    print(
        f"{'size':>8} {'n':>4}  {'median: wire':>12} {'run':>9}  {'p99: wire':>10} {'run':>9}  |one by one| p50, p99 µs"
    )
    for size in SIZES:
        serials = [serial for serial, (of, ns) in said.items() if of == size and ns >= 0]
        wire = [network_ns(on_wire[serial]) / 1000 for serial in serials]
        run_us = [said[serial][1] / 1000 for serial in serials]
        apart = [abs(a - b) for a, b in zip(wire, run_us, strict=True)]
        medians, tails = (statistics.median(wire), statistics.median(run_us)), (_p99(wire), _p99(run_us))
        off = abs(medians[0] - medians[1])
        is_right = (
            off <= max(MOST_MEDIAN_US, MOST_MEDIAN_SHARE * medians[0]) and abs(tails[0] - tails[1]) <= MOST_P99_US
        )
        are_right &= is_right
        print(
            f"{size >> 10:>4} KiB {len(serials):>4}  {medians[0]:>12.1f} {medians[1]:>9.1f}  {tails[0]:>10.1f} "
            f"{tails[1]:>9.1f}  {statistics.median(apart):.1f} {_p99(apart):.1f}  {'yes' if is_right else 'NO'}"
        )
    return are_right


def _p99(values: list[float]) -> float:
    return sorted(values)[max(0, -(-99 * len(values) // 100) - 1)]


def cost(topology: Path, rounds: int) -> None:
    """Print the times with and without the split, of alternating runs."""
    found: dict[tuple[int, str], list[float]] = defaultdict(list)
    for _ in range(rounds):
        for split in ("on", "off"):
            for size, count in ((4 << 10, 100), (16 << 20, 4)):
                options = ("-n", 2, "-b", size, "-e", size, "--iterations", count, "--topology", topology)
                with tempfile.TemporaryDirectory(prefix="charkha-cost-") as folder:
                    out = Path(folder) / "run"
                    charkha("bench", "all_reduce", *options, "--out", out, "--no-report", "--set", f"split={split}")
                    document = json.loads(charkha("runs", "show", out, "--json"))
                found[size, split].append(document["classes"][0]["cct_p50_ns"] / 1000)
                print(f"{size >> 10} KiB, split {split}: {found[size, split][-1]:.1f} µs", flush=True)
    for (size, split), values in sorted(found.items()):
        print(f"{size >> 10:>6} KiB split {split:3}  median of {rounds}: {statistics.median(values):.1f} µs  {values}")


def delays(topology: Path, pairs: int) -> bool:
    """Compare forwarders with and without a planted delay, and with themselves; whether all is found as it is."""
    are_right = True
    for held_us in (0, PLANTED_US):
        for _ in range(pairs):
            with tempfile.TemporaryDirectory(prefix="charkha-delay-") as folder:
                row = _compared(Path(folder), topology, held_us)
            found_us = (row["other"]["median_ns"] - row["baseline"]["median_ns"]) / 1000
            is_found = row["verdict"] == "slower"
            is_right = is_found and abs(found_us - held_us) <= MOST_PLANTED_ERROR_US if held_us else not is_found
            are_right &= is_right
            before_us = row["baseline"]["median_ns"] / 1000
            print(
                f"planted {held_us:>3} µs: network {before_us:.1f} µs, {found_us:+.1f} µs, {row['verdict']} "
                f"{'yes' if is_right else 'NO'}",
                flush=True,
            )
    return are_right


def _compared(folder: Path, topology: Path, held_us: int) -> dict[str, Any]:
    """The row of 4 KiB of a comparison of 6 runs in turns, without and with a delay."""
    switch = f"charkha-{load_topology(topology, ranks=2).name}-sw0"
    for number in range(_RUNS):
        for name, longer_us in (("a", 0), ("b", held_us)):
            options = ("-n", 2, "-b", SIZES[0], "-e", SIZES[0], "--iterations", 100, "--topology", topology)
            with delay_line(switch, PORTS, (LEAST_US + longer_us, LEAST_US), checksums=False):
                charkha("bench", "all_reduce", *options, "--out", folder / name / str(number), "--no-report")
    document = json.loads(charkha("compare", folder / "a", folder / "b", "--json"))
    rows: list[dict[str, Any]] = document["pairs"][0]["classes"]
    return next(row for row in rows if row["collective"] == "all_reduce")


def main() -> int:
    """Exit code 1 if the run and the capture disagree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="all-reduces of each size (default: %(default)s)")
    parser.add_argument("--cost", type=int, metavar="ROUNDS", help="play with and without the split in turns")
    parser.add_argument("--delay", type=int, metavar="PAIRS", help="compare with a planted delay, and without one")
    parser.add_argument("--topology", type=Path, default=TOPOLOGY, help="two hosts at the switch sw0")
    args = parser.parse_args()
    topology = args.topology.resolve()
    with raised(topology):
        if args.cost:
            cost(topology, args.cost)
            return 0
        if args.delay:
            return 0 if delays(topology, args.delay) else 1
        with tempfile.TemporaryDirectory(prefix="charkha-parts-") as folder:
            return 0 if compare(Path(folder), topology, args.count) else 1


if __name__ == "__main__":
    sys.exit(main())
