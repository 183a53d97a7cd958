"""Our own frames as a kernel puts them on a wire, judged by scapy, by Wireshark's dissector and by the audit."""

import json
import subprocess
import warnings
from collections import Counter
from pathlib import Path

import pytest

from tests.support.command import charkha, succeed
from tests.support.full import IS_FULL
from tests.support.namespaces import Capture, Namespace, captured, cut_frames, join_by_cable

ENDS = {"IPv4": ("198.18.1.1", "198.18.2.1"), "IPv6": ("fd00:1::1", "fd00:2::1")}
OPTIONS = {
    "plain": (),
    "random-1024": (
        *("--payload", "random", "--path-mtu", 1024, "--message-bytes", "24K"),
        *("--qps", 2, "--source-port", "message"),
    ),
}


def run_between(place: Namespace, ends: tuple[str, str], folder: Path, *options: object) -> None:
    """A sweep of two ranks, one at each address."""
    topology = folder / "ends.yaml"
    hosts = "".join(f"  - {{name: h{i}, address: '{end}'}}\n" for i, end in enumerate(ends))
    topology.write_text(f"name: ends\nhosts:\n{hosts}")
    sweep = ("bench", "all_reduce", "-n", 2, "-b", "1K", "-e", "256K", "-f", 16, "--iterations", 2, "--agents", 2)
    where = ("--topology", topology, "--transport", "roce", "--out", "run")
    succeed(*sweep, *where, *options, cwd=folder, prefix=place.prefix, quiet=True)


def add_to_loopback(place: Namespace, ends: tuple[str, str]) -> None:
    for end in ends:
        place.run("ip", "address", "add", f"{end}/{128 if ':' in end else 32}", "dev", "lo", "nodad")
    cut_frames(place, "lo")


@pytest.mark.parametrize(
    ("family", "options"),
    [("IPv4", "plain"), ("IPv6", "random-1024"), *([("IPv4", "random-1024"), ("IPv6", "plain")] if IS_FULL else [])],
)
def test_frames_on_loopback(place: Namespace, tmp_path: Path, family: str, options: str) -> None:
    add_to_loopback(place, ENDS[family])
    with captured(place, "lo", tmp_path / "lo.pcap") as capture:
        run_between(place, ENDS[family], tmp_path, *OPTIONS[options])
    check(capture)
    assert most_source_ports(capture) == (16 if "message" in OPTIONS[options] else 1)


@pytest.mark.slow
@pytest.mark.parametrize("family", ENDS)
def test_frames_on_a_cable_between_two_interfaces(place: Namespace, tmp_path: Path, family: str) -> None:
    near, far = join_by_cable(place, *ENDS[family])
    with (
        captured(place, near, tmp_path / "near.pcap") as at_near,
        captured(place, far, tmp_path / "far.pcap") as at_far,
        captured(place, "lo", tmp_path / "lo.pcap") as on_loopback,
    ):
        run_between(place, ENDS[family], tmp_path)
    assert on_loopback.frames == 0
    assert at_near.frames == at_far.frames
    succeed("runs", "audit", at_near.path, cwd=tmp_path)
    check(at_far)


def check(capture: Capture) -> None:
    assert capture.dropped == 0
    assert capture.frames > 400
    assert frames_that_scapy_accepts(capture.path) == capture.frames
    assert_wireshark_knows_them(capture)
    audit = charkha("runs", "audit", capture.path, "--json", cwd=capture.path.parent)
    report = json.loads(audit.stdout)
    assert (audit.code, report["violations"], report["superframes"]) == (0, [], 0)
    assert report["total"]["icrc_good"] == report["roce_frames"] == capture.frames


def frames_that_scapy_accepts(path: Path) -> int:
    """How many frames there are; fails where scapy computes another ICRC than the frame has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries it finds on its way
        from scapy.contrib.roce import BTH
        from scapy.utils import PcapReader
    frames = 0
    with PcapReader(str(path)) as reader:
        for frames, frame in enumerate(reader, 1):
            assert frame[BTH].compute_icrc(bytes(frame[BTH])) == bytes(frame)[-4:], f"frame {frames}"
    return frames


def most_source_ports(capture: Capture) -> int:
    """From how many ports the messages of one queue pair came, of the queue pair with the most."""
    is_message = "infiniband.bth.opcode >= 6 && infiniband.bth.opcode <= 11"
    words = ["tshark", "-n", "-r", str(capture.path), "-Y", is_message, "-T", "fields"]
    words += ["-e", "infiniband.bth.destqp", "-e", "udp.srcport"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    pairs = Counter(line.split("\t")[0] for line in set(lines))
    return max(pairs.values())


def assert_wireshark_knows_them(capture: Capture) -> None:
    fields = ("frame.protocols", "_ws.malformed", "_ws.expert.severity", "infiniband.bth.opcode")
    printed = [word for field in fields for word in ("-e", field)]
    words = ["tshark", "-n", "-r", str(capture.path), "-T", "fields", *printed]
    lines = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    assert len(lines) == capture.frames
    for number, line in enumerate(lines, 1):
        protocols, malformed, severity, opcode = line.split("\t")
        assert "infiniband" in protocols.split(":"), f"frame {number}: {protocols}"
        assert (malformed, severity) == ("", ""), f"frame {number}: {line}"
        assert int(opcode) in (*range(0x06, 0x0C), 0x11), f"frame {number}: {line}"
