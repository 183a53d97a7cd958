"""Congestion marks that a real kernel sets: every one is seen, and answered by notifications that are counted."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.command import charkha, succeed
from tests.support.namespaces import Namespace, captured, cut_frames


def mark(place: Namespace, *, one_in: int) -> None:
    """Set Congestion Experienced on one in so many packets that carry payload: RDMA WRITEs, by the BTH's opcode."""
    place.nft(f"""
        table inet wire
        delete table inet wire
        table inet wire {{
          counter marked {{
          }}
          chain input {{
            type filter hook input priority 0; policy accept;
            udp dport 4791 @th,64,8 0x06-0x0b numgen inc mod {one_in} == 0 ip ecn set ce counter name marked
          }}
        }}
    """)


def play(place: Namespace, folder: Path, congestion: str) -> tuple[dict[str, int], dict[str, Any]]:
    """A run's counters, summed over its flows, and the audit of its frames."""
    sweep = ("bench", "all_reduce", "-n", 2, "-b", "2M", "-e", "2M", "--iterations", 1, "--warmup", 0, "--agents", 2)
    options = ("--congestion", congestion, "--flow-rate", "2Gbit", "--payload", "random", "--transport", "roce")
    with captured(place, "lo", folder / f"{congestion}.pcap") as capture:
        finished = charkha(*sweep, *options, "--out", congestion, cwd=folder, prefix=place.prefix)
    assert (finished.code, finished.stderr, capture.dropped) == (0, "", 0)
    audit = succeed("runs", "audit", capture.path, "--json", cwd=folder)
    rows = pq.read_table(folder / congestion / "flows.parquet").to_pylist()
    names = ("ecn_marks", "cnps_sent", "cnps_received", "retransmits")
    return {name: sum(row[name] or 0 for row in rows) for name in names}, json.loads(audit.stdout)


@pytest.mark.slow
def test_marks_are_seen_and_answered(place: Namespace, tmp_path: Path) -> None:
    cut_frames(place, "lo")
    mark(place, one_in=3)
    counted, audit = play(place, tmp_path, "none")
    assert counted["ecn_marks"] == place.counters("wire")["marked"] > 100
    assert 0 < counted["cnps_sent"] <= counted["ecn_marks"]
    assert counted["cnps_received"] == counted["cnps_sent"] == audit["total"]["cnps"]
    mark(place, one_in=1)
    counted, audit = play(place, tmp_path, "dcqcn")
    assert counted["ecn_marks"] == place.counters("wire")["marked"] > 300
    assert counted["cnps_received"] == counted["cnps_sent"] == audit["total"]["cnps"] > 0
