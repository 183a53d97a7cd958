"""Four paths between two hosts: hashed, pinned and sprayed flows, a path that goes black, and a switch that trims."""

import json
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from emulator.device.lab.design import namespace_name
from emulator.device.lab.labs import Labs
from emulator.device.lab.state import LabStore
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable
from emulator.topology.load import load_topology
from tests.support.command import charkha, started, succeed
from tests.support.full import measures
from tests.support.star_lab import sent_bytes

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow]
FOUR_PATHS = (Path(__file__).parents[2] / "topologies" / "leaf-spine-2x4.yaml").read_text()
PINNED = FOUR_PATHS.replace("ecmp: {seed: 78}", "routes:\n  - {at: leaf0, to: h1, via: spine0}\n")
ROOMY = FOUR_PATHS.replace("rate: 100Mbit", "rate: 80Mbit")
UPLINKS = [f"leaf0:u{spine}" for spine in range(4)]
TRIMMING = """
name: trimming
hosts:
  - {name: h0, per_rank: 198.18.1.0/24}
  - {name: h1, per_rank: 198.18.2.0/24}
switches: [{name: sw0, kind: ovs}]
links:
  - {endpoints: ["h0:eth0", "sw0:p0"], rate: 50Mbit, mtu: 9000}
  - {endpoints: ["h1:eth0", "sw0:p1"], rate: 50Mbit, mtu: 9000}
"""
HEADERS_BYTES = 70  # Ethernet, IPv4, UDP, BTH, RETH
BLACK_S = 1.0


@contextmanager
def lab(folder: Path, text: str, name: str) -> Iterator[str]:
    path = folder / "lab.yaml"
    path.write_text(text)
    labs, one = Labs(LabStore()), f"test-{name}-{secrets.token_hex(3)}"
    try:
        labs.up(load_topology(path, ranks=0), lab_id=one)
        yield one
    finally:
        labs.down(one)


def sending(size: str, lab_id: str, *options: object, iterations: int = 3, out: str = "run") -> tuple[object, ...]:
    return (
        "bench", "broadcast", "-n", 2, "-b", size, "-e", size, "--iterations", iterations, "--warmup", 0,
        "--topology", "lab.yaml", "--lab", lab_id, "--out", out, *options,
    )  # fmt: skip


def send(folder: Path, lab_id: str, *options: object, size: str = "4M") -> tuple[Run, float]:
    """Rank 0 sends to rank 1: the run, and the median time, s."""
    out = f"run-{secrets.token_hex(3)}"
    succeed(*sending(size, lab_id, *options, out=out), cwd=folder)
    run = read_run(folder / out)
    spans = [(row["end_ns"] - row["start_ns"]) / 1e9 for row in run.table(RunTable.ITERATIONS).to_pylist()]
    return run, sorted(spans)[len(spans) // 2]


def planned_ns(folder: Path, *options: object) -> int:
    what = ("plan", "--collective", "broadcast", "-n", 2, "-b", "4M", "--topology", "lab.yaml", *options, "--json")
    found: dict[str, Any] = json.loads(charkha(*what, cwd=folder).stdout)
    return int(found["operations"][0]["ideal_ns"]["hashed"])


def facts(run: Run, name: str) -> int:
    found = (host.transport.get(f"multipath.{name}") for host in run.manifest.hosts)
    return sum(int(one.value) for one in found if one is not None)


@measures
def test_a_sprayed_flow_uses_all_paths_evenly_and_is_as_much_faster_as_planned(tmp_path: Path) -> None:
    with lab(tmp_path, FOUR_PATHS, "spray") as one:
        hashed, hashed_s = send(tmp_path, one)
        sprayed, sprayed_s = send(tmp_path, one, "--multipath", 4)
        factor = planned_ns(tmp_path) / planned_ns(tmp_path, "--multipath", 4)
    print(f"hashed {hashed_s:.3f} s, sprayed {sprayed_s:.3f} s, {hashed_s / sprayed_s:.2f} of planned {factor:.2f}")
    used, even = sent_bytes(hashed), sent_bytes(sprayed)
    assert sorted(used[port] > 1 << 20 for port in UPLINKS) == [False, False, False, True]
    mean = sum(even[port] for port in UPLINKS) / 4
    assert [even[port] for port in UPLINKS] == pytest.approx([mean] * 4, rel=0.01)
    assert hashed_s / sprayed_s >= factor * 0.95


@measures
def test_a_pinned_flow_has_one_path_as_a_hashed_one(tmp_path: Path) -> None:
    with lab(tmp_path, PINNED, "pinned") as one:
        pinned, pinned_s = send(tmp_path, one)
        expected_s = planned_ns(tmp_path) / 1e9
    used = sent_bytes(pinned)
    assert [used[port] > 1 << 20 for port in UPLINKS] == [True, False, False, False]
    assert pinned_s >= expected_s


def received(lab_id: str) -> tuple[float, int]:
    """The time, s, and the bytes that h1 has received."""
    path = "/sys/class/net/eth0/statistics/rx_bytes"
    command = ("ip", "netns", "exec", namespace_name(lab_id, "h1"), "cat", path)
    shown = subprocess.run(command, capture_output=True, check=True)
    return time.monotonic(), int(shown.stdout)


def rate(seen: list[tuple[float, int]], start: float, end: float) -> float:
    first = next(one for one in seen if one[0] >= start)
    last = next(one for one in reversed(seen) if one[0] <= end)
    return (last[1] - first[1]) / (last[0] - first[0])


@measures
def test_a_black_path_costs_at_most_a_quarter_after_100_ms_and_loses_nothing(tmp_path: Path) -> None:
    with lab(tmp_path, ROOMY, "black") as one:
        spine = ("ip", "netns", "exec", namespace_name(one, "spine1"), "nft")
        rule = "table inet black {\nchain f {\ntype filter hook forward priority 0\ncounter drop\n}\n}\n"
        with started(*sending("32M", one, "--multipath", 4, iterations=1), cwd=tmp_path) as command:
            seen = [received(one)]
            while seen[-1][1] - seen[0][1] < 10 << 20:
                seen.append(received(one))
            black_s = time.monotonic()
            subprocess.run([*spine, "-f", "-"], input=rule, text=True, check=True)
            while seen[-1][0] < black_s + BLACK_S:
                seen.append(received(one))
            finished = command.finish(60)
        assert finished.code == 0, finished.stderr
        run = read_run(tmp_path / "run")
    healthy, later = rate(seen, black_s - BLACK_S, black_s), rate(seen, black_s + 0.1, black_s + BLACK_S)
    print(f"{healthy * 8e-6:.1f} Mbit/s before, {later * 8e-6:.1f} Mbit/s from 100 ms after the path went black")
    assert later >= 0.75 * healthy
    (row,) = (row for row in run.table(RunTable.FLOWS).to_pylist() if row["bytes"])
    assert row["bytes"] == 32 << 20
    assert sum(facts(run, f"path{path}.retirements") > 0 for path in range(4)) == 1


def test_trimmed_frames_are_as_many_as_the_switch_trimmed(tmp_path: Path) -> None:
    with lab(tmp_path, TRIMMING, "trim") as one:
        inside = ("ip", "netns", "exec", namespace_name(one, "sw0"), "ovs-ofctl")
        (socket,) = LabStore().folder(one).glob("*/br0.mgmt")
        data = f"priority=9,udp,nw_dst=198.18.2.0/24,tp_dst=4791,tp_src=49153,nw_tos={26 << 2}"
        rule = f"{data},actions=output(port=2,max_len={HEADERS_BYTES})"
        subprocess.run([*inside, "add-flow", f"unix:{socket}", rule], check=True)
        run, _ = send(tmp_path, one, "--multipath", 4, "--ack-dscp", 0, "--payload", "random", size="1M")
        shown = subprocess.run([*inside, "dump-flows", f"unix:{socket}"], capture_output=True, text=True, check=True)
    (line,) = (line for line in shown.stdout.splitlines() if "max_len" in line)
    trimmed = int(line.partition("n_packets=")[2].partition(",")[0])
    assert facts(run, "trimmed") == trimmed > 0
    assert facts(run, "path1.retirements") >= 1
