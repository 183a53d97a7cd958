"""What ranks of a scale-up domain send each other is on no interface; what others send is."""

import subprocess
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.summary import summarise
from tests.support.command import charkha
from tests.support.namespaces import Capture, Namespace, captured
from tests.support.star_lab import Lab

DOMAIN = "domain: {rate: 100MB/s, latency: 20us}"
OWN = {f"198.18.{host + 1}.{rank}": host for host in range(2) for rank in (1, 2)}
"""Address of a rank → its host."""
HOSTS = "".join(f"  - {{name: h{host}, slots: 2, per_rank: 198.18.{host + 1}.0/24, {DOMAIN}}}\n" for host in range(2))
SWEEP = (*("all_to_all", "-n", 4, "-b", "64K", "-e", "64K", "--iterations", 2), *("--algorithm", "all_to_all=parallel"))


def pairs(capture: Capture) -> Counter[tuple[int, int]]:
    """Frames by the hosts of their addresses."""
    words = ["tshark", "-n", "-r", str(capture.path), "-T", "fields", "-e", "ip.src", "-e", "ip.dst"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    ends = (line.split("\t") for line in lines)
    return Counter((OWN[source], OWN[target]) for source, target in ends if {source, target} <= OWN.keys())


def check(folder: Path) -> None:
    """Every pair has its bytes, over what connects it."""
    run = read_run(folder)
    rows = run.table(RunTable.FLOWS).to_pylist()
    assert {(one["src"], one["dst"]): one["medium"] for one in rows} == {
        (src, dst): "domain" if src // 2 == dst // 2 else "wire" for src in range(4) for dst in range(4) if src != dst
    }
    carried: Counter[tuple[int, int]] = Counter()
    for one in rows:
        carried[one["src"], one["dst"]] += one["bytes"]
    assert set(carried.values()) == {3 * 16 * 1024}  # warm-up included
    assert summarise(run).totals.domain_bytes * 3 == summarise(run).totals.payload_bytes


@pytest.mark.parametrize("transport", [pytest.param("zmq", marks=pytest.mark.slow), "roce"])
def test_no_frame_leaves_a_domain(place: Namespace, tmp_path: Path, transport: str) -> None:
    for address in OWN:
        place.run("ip", "address", "add", f"{address}/32", "dev", "lo")
    (tmp_path / "t.yaml").write_text(f"hosts:\n{HOSTS}")
    where = ("--topology", "t.yaml", "--transport", transport, "--agents", 2, "--out", "run")
    with captured(place, "any", tmp_path / "any.pcap", snap_bytes=128, only="net 198.18.0.0/15") as capture:
        played = charkha("bench", *SWEEP, *where, cwd=tmp_path, prefix=place.prefix)
    assert (played.code, played.stderr) == (0, "")
    frames = pairs(capture)
    assert set(frames) == {(0, 1), (1, 0)}
    assert min(frames.values()) > 24  # messages of payload alone
    check(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.usefixtures("lab_host")
def test_no_frame_leaves_a_domain_in_a_lab(tmp_path: Path) -> None:
    links = "".join(f'  - {{endpoints: ["h{n}:eth0", "sw0:p{n}"], rate: 100Mbit, mtu: 1500}}\n' for n in range(2))
    lab = Lab(tmp_path, f"name: two\nhosts:\n{HOSTS}switches:\n  - {{name: sw0}}\nlinks:\n{links}")
    try:
        lab.up()
        with ExitStack() as stack:
            captures = [
                stack.enter_context(
                    captured(Namespace(f"charkha-{lab.id}-{node}"), "any", tmp_path / f"{node}.pcap", only="ip")
                )
                for node in ("h0", "h1", "sw0")
            ]
            lab.run(*SWEEP, "--transport", "roce", out="run")
        assert [set(pairs(capture)) for capture in captures] == [{(0, 1), (1, 0)}] * 3
        check(tmp_path / "run")
    finally:
        lab.down()
