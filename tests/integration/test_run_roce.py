"""`charkha run --transport roce` from the outside, at addresses of this test alone."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from emulator.control.parameter import Parameter
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.roce.tuning import RECEIVE_BUFFER_BYTES
from tests.support.command import COMMAND, EXAMPLE, charkha, succeed
from tests.support.loopback import NET
from tests.support.skips import need


def test_a_run_records_its_flows_and_effective_options(tmp_path: Path) -> None:
    topology = tmp_path / "own.yaml"
    topology.write_text(f"name: own\nhosts:\n  - name: here\n    per_rank: {NET}.0.0/16\nplacement: block\n")
    options = (
        "--qps",
        2,
        "--path-mtu",
        1024,
        "--payload",
        "random",
        "--qp-timeout",
        "nccl",
        "--congestion",
        "dcqcn",
        "--timeline",
        "1ms",
    )
    succeed(
        *("run", EXAMPLE, "--scale-bytes", "1/64", "--iterations", 2, "--agents", 2, "--out", "run"),
        *("--topology", topology, "--transport", "roce", *options),
        cwd=tmp_path,
        quiet=True,
    )
    parameters = json.loads((tmp_path / "run" / "manifest.json").read_text())["parameters"]
    assert parameters["transport"]["value"] == "roce"
    assert parameters["roce.qps"] == {"value": 2, "unit": ""}
    assert parameters["roce.path_mtu"] == {"value": 1024, "unit": "bytes"}
    assert parameters["roce.timeout_ns"] == {"value": 4096 << 20, "unit": "ns"}
    assert parameters["roce.dcqcn.increase_timer_ns"] == {"value": 300_000, "unit": "ns"}
    flows = pq.read_table(tmp_path / "run" / "flows.parquet").to_pylist()
    timeline = read_run(tmp_path / "run").table(RunTable.TIMELINE).to_pylist()
    assert {row["bin_ns"] for row in timeline} == {1_000_000}
    assert flows
    for flow in flows:
        own = [row for row in timeline if all(row[name] == flow[name] for name in ("src", "dst", "qpn"))]
        for name in ("bytes", "retransmits", "ecn_marks"):
            assert sum(row[name] for row in own) == flow[name]
        fewest = -(-flow["bytes"] // 1024)
        assert flow["packets"] - flow["retransmits"] >= fewest
        assert flow["rtt_ns"] > 0


def test_with_time_stamps_of_the_kernel_every_sample_says_when_the_agent_read_it(tmp_path: Path) -> None:
    hosts = "{name: a, per_rank: 127.91.1.0/24}, {name: b, per_rank: 127.92.1.0/24}"
    (tmp_path / "two.yaml").write_text(f"hosts: [{hosts}]\n")  # what ranks send within a host is not stamped
    options = ("--transport", "roce", "--time-stamps", "kernel", "--topology", "two.yaml")
    finished = charkha("run", EXAMPLE, "--scale-bytes", "1/64", *options, "--out", "run", cwd=tmp_path)
    assert (finished.code, finished.stderr.splitlines()[1:]) == (0, [])
    run = read_run(tmp_path / "run")
    assert run.manifest.observation_point == "kernel's receive time stamps"
    rows = run.table(RunTable.SAMPLES).to_pylist()
    assert rows
    for row in rows:
        assert row["post_ns"] <= row["done_ns"]
        assert row["arrival_ns"] is None or row["arrival_ns"] <= row["done_ns"]
        if row["kind"] != "recv":  # one that is posted after its payload has come is done at its post
            assert row["read_delay_ns"] > 0
    assert all(host.transport["send_delay_median"].value > 0 for host in run.manifest.hosts)
    assert "kernel's receive time stamps" in finished.stdout
    assert "later at the median" in finished.stdout


def test_a_transfer_that_lasts_longer_than_the_timeout_is_no_standstill(tmp_path: Path) -> None:
    """A message takes four seconds at the rate, and the window holds all of it."""
    bench = ("bench", "broadcast", "-n", 2, "-b", "1M", "-e", "1M", "--iterations", 1, "--warmup", 0, "--agents", 2)
    succeed(*bench, "--rate-cap", "2Mbit", "--timeout", 3, "--out", "run", cwd=tmp_path, quiet=True)


def test_the_ranks_of_a_port_keep_to_its_rate_together(tmp_path: Path) -> None:
    """Four ranks over two agents at the one port that loopback is; headers of every layer count."""
    bench = ("bench", "all_reduce", "-n", 4, "-b", "256K", "-e", "256K", "--iterations", 3, "--agents", 2)
    (row,) = succeed(*bench, "--rate-cap", "500Mbit", "--json", "--out", "run", cwd=tmp_path, quiet=True).document[
        "rows"
    ]
    payload_bits = 8 * 2 * 3 * (256 << 10)  # a ring: each of 4 ranks sends 2 · 3/4 of the size
    assert row["min_us"] >= 0.9 * payload_bits / 500  # an agent may be up to a millisecond ahead
    manifest = read_run(tmp_path / "run").manifest
    assert manifest.parameters["roce.rate_cap_bps"] == Parameter(500_000_000, "bit/s")


def test_a_port_with_a_rate_is_paced_and_controlled_without_a_word(tmp_path: Path) -> None:
    topology = tmp_path / "own.yaml"
    topology.write_text(f"hosts:\n  - {{name: here, per_rank: {NET}.0.0/16, rate: 2Gbit}}\n")
    succeed(
        *("bench", "all_reduce", "-n", 2, "-b", "64K", "-e", "64K", "--iterations", 2, "--topology", topology),
        *("--out", "run"),
        cwd=tmp_path,
        quiet=True,
    )
    parameters = read_run(tmp_path / "run").manifest.parameters
    assert parameters["roce.congestion"].value == "dcqcn"
    assert parameters["roce.dcqcn.line_rate_bps"] == parameters["roce.rate_cap_bps"] == Parameter(2 * 10**9, "bit/s")


def test_buffers_that_the_kernel_cut_are_a_warning_with_its_remedy(tmp_path: Path) -> None:
    """Root of a user namespace may not go beyond the limit."""
    largest = int(Path("/proc/sys/net/core/rmem_max").read_text())
    if largest >= RECEIVE_BUFFER_BYTES:
        pytest.skip("the limit of this host is not below what is asked for")
    run = [*COMMAND, "run", str(EXAMPLE), "--scale-bytes", "1/1024", "--compute", "skip", "--iterations", "1"]
    try:
        done = subprocess.run(
            ["unshare", "-r", *run, "--warmup", "0", "--out", "run"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no user namespace can be had here: {error}")
    said = " ".join(done.stdout.split())
    assert f"of 64 MiB for a receive buffer: sysctl -w net.core.rmem_max={RECEIVE_BUFFER_BYTES}" in said
    for host in read_run(tmp_path / "run").manifest.hosts:
        assert host.transport["receive_buffer_granted"] == Parameter(largest, "bytes")
        assert host.transport["receive_buffer_asked"] == Parameter(RECEIVE_BUFFER_BYTES, "bytes")
        assert [nic["interface"] for nic in host.nics] == ["lo"]


IN_A_NAMESPACE = """
import asyncio, socket, struct
from emulator.roce.wire.icrc import icrc_of_datagram
from agents.transports.base import Address
from agents.transports.roce.transport import RoceTransport
from emulator.roce.options import RoceOptions

class Rank:
    def __init__(self, endpoint):
        self.endpoint, self.heard = endpoint, []
    def arrived(self, peer, tag, size, now, count=1):
        self.heard += [(peer, tag, size)] * count
    def acknowledged(self, peer, tag, now):
        self.heard.append(tag)
    def failed(self, peer, reason):
        raise SystemExit(reason)

async def carry(hosts, seed):
    options = RoceOptions(path_mtu=1024, payload="random")
    async with RoceTransport(options=options, message_bytes=50_000) as transport:
        ranks = [Rank(await transport.open(i, host)) for i, host in enumerate(hosts)]
        directory = {i: rank.endpoint.address for i, rank in enumerate(ranks)}
        for rank in ranks:
            rank.endpoint.connect(directory, rank)
        transfers = [(tag, 30_000 * tag) for tag in range(8)] + [(8, 1000)] * 150 + [(9, 0)] * 3 + [(10, 7)] * 2
        for tag, size in transfers[8:] + transfers[:8]:
            ranks[0].endpoint.post(1, tag, size)
        ranks[0].endpoint.flush()
        async with asyncio.timeout(60):
            while len(ranks[0].heard) < len(transfers):
                await asyncio.sleep(0.001)
        assert sorted(ranks[1].heard) == [(0, *transfer) for transfer in transfers], ranks[1].heard
        assert not transport.drops, transport.drops
        return sum(flow.packets or 0 for flow in ranks[0].endpoint.counters())

def frames(sniffer):
    while True:
        try:
            yield sniffer.recv(1 << 16)
        except BlockingIOError:
            return

for hosts in (("127.0.0.1", "127.0.0.2"), ("fd00::1", "fd00::2")):
    sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, socket.htons(3))
    sniffer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    sniffer.bind(("lo", 3))
    packets = asyncio.run(carry(hosts, 1))
    seen = 0
    for frame in frames(sniffer):
        header = 20 if frame[0] >> 4 == 4 else 40
        protocol = frame[9] if header == 20 else frame[6]
        if protocol != 17 or frame[header + 2 : header + 4] != (4791).to_bytes(2):
            continue
        seen += 1
        (received,) = struct.unpack("<I", frame[-4:])
        assert received == icrc_of_datagram(frame, header), frame[:80].hex()
    assert seen >= 2 * packets, (seen, packets)  # lo shows each frame twice, leaving and coming, and ACKs
print("done")
"""


def test_every_frame_on_the_wire_is_intact_over_ipv4_and_ipv6(tmp_path: Path) -> None:
    """As the kernel cuts and numbers them, in a network namespace of this test's own."""
    prepare = "ip link set lo up && ethtool -K lo tx-udp-segmentation off && ip -6 address add fd00::1/128 dev lo"
    prepare += " && ip -6 address add fd00::2/128 dev lo"
    need("ip", "ethtool")
    unshare = ["unshare", "-rn", "sh", "-c"]
    try:
        subprocess.run([*unshare, prepare], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespace can be prepared here: {type(error).__name__}")
    script = tmp_path / "carry.py"
    script.write_text(IN_A_NAMESPACE)
    carried = subprocess.run(
        [*unshare, f"{prepare} && exec {sys.executable} {script}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (carried.stdout, carried.returncode) == ("done\n", 0), carried.stderr


def test_with_few_descriptors_queue_pairs_share_sending_sockets(tmp_path: Path) -> None:
    options = ("--sizes", "4K", "--iterations", 1, "--transport", "roce", "--agents", 1)
    finished = succeed(
        *("bench", "all_to_all", "-n", 16, *options, "--out", "run"),
        cwd=tmp_path,
        prefix=("prlimit", "--nofile=400:400"),
    )
    run = read_run(tmp_path / "run")
    (host,) = run.manifest.hosts
    sockets, shared = host.transport["sending_sockets"].value, host.transport["ports_shared"].value
    flows = run.table(RunTable.FLOWS).to_pylist()
    ports = {(flow["src"], flow["source_port"]) for flow in flows}
    assert 16 <= len(ports) <= sockets < 144 - 16, "400 descriptors less 256 for all else and 16 that receive"
    assert sockets + shared == 16 * 15 * 2  # one queue pair for payload and one for control to every peer
    assert all(flow["source_port"] >= 49152 for flow in flows)
    assert all(len({port for rank, port in ports if rank == one}) > 1 for one in range(16))
    assert "a queue pair had to share a source port" in finished.stdout + finished.stderr


def test_without_a_timeline_there_is_no_table_and_no_section(tmp_path: Path) -> None:
    for name, options in (("without", ()), ("with", ("--timeline", "10ms"))):
        assert (
            charkha(
                "run", EXAMPLE, "--transport", "roce", "--scale-bytes", "1/64", *options, "--out", name, cwd=tmp_path
            ).code
            == 0
        )
        assert (tmp_path / name / "timeline.parquet").exists() is (name == "with")
        assert ("rates-over-time" in (tmp_path / name / "report.html").read_text()) is (name == "with")
