"""Losses on a real kernel: runs complete, nothing comes twice, and our counters and the capture tell the same story."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.command import ROOT, charkha, succeed
from tests.support.full import IS_FULL
from tests.support.namespaces import Namespace, captured, cut_frames

ITERATIONS = 3
SIZE = 4 << 20
PATH_MTU = 4096


def lose(place: Namespace, per_mille: int) -> None:
    """Drop so many of 1,000 datagrams on their way to an endpoint, behind where tcpdump looks."""
    cut_frames(place, "lo")
    place.nft(f"""
        table inet wire {{
          counter seen {{
          }}
          counter lost {{
          }}
          chain input {{
            type filter hook input priority 0; policy accept;
            udp dport 4791 counter name seen
            udp dport 4791 numgen random mod 1000 < {per_mille} counter name lost drop
          }}
        }}
    """)


@pytest.mark.parametrize("per_mille", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_a_run_with_losses_completes_and_counts_what_the_capture_shows(
    place: Namespace, tmp_path: Path, per_mille: int
) -> None:
    lose(place, per_mille)
    sweep = ("bench", "all_reduce", "-n", 2, "-b", SIZE, "-e", SIZE, "--iterations", ITERATIONS - 1, "--agents", 2)
    options = ("--flow-rate", "500Mbit", "--qp-timeout", 16, "--payload", "random", "--transport", "roce")
    with captured(place, "lo", tmp_path / "lo.pcap", snap_bytes=128) as capture:
        finished = charkha(*sweep, *options, "--out", "run", cwd=tmp_path, prefix=place.prefix)
    assert (finished.code, finished.stderr) == (0, "")
    wire = place.counters("wire")
    assert (capture.dropped, capture.frames) == (0, wire["seen"])
    assert 0 < wire["lost"] < wire["seen"]
    flows = flows_of(tmp_path / "run")
    resent = sum(flow["retransmits"] for flow in flows.values())
    sent = sum(flow["packets"] for flow in flows.values())
    assert sent - resent >= 2 * ITERATIONS * SIZE // PATH_MTU  # a ring of two: each sends the array once
    assert resent > 0
    assert all(flow["dropped_payload"] == flow["dropped_icrc"] == 0 for flow in flows.values())
    seen = {
        flow["dest_qp"]: flow
        for flow in succeed("runs", "audit", capture.path, "--json", cwd=tmp_path).document["flows"]
    }
    assert {qpn: (flow["packets"], flow["retransmits"]) for qpn, flow in flows.items()} == {
        qpn: (flow["data_frames"], flow["retransmitted"]) for qpn, flow in seen.items() if flow["data_frames"]
    }
    naks = sum(flow["naks"] for flow in flows.values())
    assert 0 < naks <= sum(sum(flow["carried"]["naks"].values()) for flow in seen.values())


def flows_of(run: Path) -> dict[int, dict[str, Any]]:
    """Flows of a run by the queue pair that their packets go to; two ranks have each another one."""
    rows = pq.read_table(run / "flows.parquet").to_pylist()
    assert len({row["qpn"] for row in rows}) == len(rows)
    return {row["qpn"]: row for row in rows if row["packets"]}


@pytest.mark.slow
@pytest.mark.parametrize("per_mille", [10, 50] if IS_FULL else [50], ids="{0} per mille".format)
def test_every_transfer_arrives_once_and_in_order_through_losses(place: Namespace, per_mille: int) -> None:
    """What every transport promises, in a namespace that loses: with constant and random payload, either receiver."""
    lose(place, per_mille)
    cases = (
        "delivers_any_size_once",
        "keeps_the_order",
        "both_directions",
        "carries_to_many_peers",
        "overtake_payload",
    )
    words = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "tests/integration/test_transport_roce.py",
    ]
    command = [*place.prefix, sys.executable, *words, "-k", f"conformance and ({' or '.join(cases)})"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert place.counters("wire")["lost"] > 0


def test_a_path_on_which_full_frames_vanish_is_given_up_by_name(place: Namespace, tmp_path: Path) -> None:
    """As where an MTU is smaller than somebody thinks: what is small passes, and every NAK asks for the same packet."""
    cut_frames(place, "lo")
    place.nft("""
        table inet wire {
          chain input {
            type filter hook input priority 0; policy accept;
            udp dport 4791 meta length > 4000 drop
          }
        }
    """)
    sweep = ("bench", "all_reduce", "-n", 2, "-b", "24K", "-e", "24K", "--iterations", 1, "--agents", 2)
    finished = charkha(*sweep, "--qp-timeout", 12, "--out", "run", cwd=tmp_path, prefix=place.prefix)
    assert finished.code == 1
    assert "no answer after 7 retries" in finished.stderr
