"""The walk of packets through queues against times worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emulator.planner.network import packet_simulation
from emulator.planner.network.packet_flows import Sending
from emulator.planner.network.packet_simulation import queued_ns
from emulator.planner.network.routing import Router
from emulator.planner.traffic.operation import traffic_of_collective
from emulator.topology.load import load_topology
from emulator.trace.model import CommKind

BYTE_NS = 80  # at 100 Mbit/s
MTU, HEADER = 1024, 38 + 20 + 8 + 12 + 4
FIRST, LAST, FULL, ACK, CLEAR = HEADER + 16 + MTU, HEADER + 4 + MTU, HEADER + MTU, HEADER + 4, HEADER + 16 + 4
SENDING = Sending(path_mtu=MTU, message_bytes=1 << 20, window_packets=32, timeout_ns=10**9)
PAIR = """hosts:
  - {name: h0, address: 10.0.0.1, rate: 100Mbit}
  - {name: h1, address: 10.0.0.2, rate: 100Mbit}
"""
UPLINK = "fabric: {leaves: 2, spines: 1, hosts_per_leaf: 2, rate: 100Mbit}"


def walked(
    tmp_path: Path,
    text: str,
    ranks: int,
    kind: CommKind,
    algorithm: str,
    *,
    size_bytes: int,
    sending: Sending = SENDING,
) -> int | None:
    (tmp_path / "t.yaml").write_text(text)
    topology = load_topology(tmp_path / "t.yaml", ranks=ranks)
    traffic = traffic_of_collective(
        kind, ranks=ranks, size_bytes=size_bytes, group_size=ranks, overrides={kind.label: algorithm}
    )
    rates = np.repeat([float(link.rate_bps or np.nan) for link in topology.network.links], 2)
    return queued_ns(traffic.operations[0], Router(topology), rates, sending)


def broadcast(tmp_path: Path, packets: int, sending: Sending = SENDING, text: str = PAIR) -> int | None:
    return walked(tmp_path, text, 2, CommKind.BROADCAST, "ring", size_bytes=packets * MTU, sending=sending)


def test_a_flow_alone_takes_its_frames_and_what_the_last_of_them_takes_from_hop_to_hop(tmp_path: Path) -> None:
    # Clear to send over both links, its acknowledgement and the first frame over one, the message over the other, whose
    # last frame waits for those before it, and the acknowledgement of all that, over both.
    expected = 2 * CLEAR + ACK + FIRST + (FIRST + 8 * FULL + LAST) + 2 * ACK
    assert broadcast(tmp_path, 10) == expected * BYTE_NS


def test_a_window_that_is_too_small_leaves_gaps(tmp_path: Path) -> None:
    # Of one packet: each waits for the acknowledgement of the one before, over two links each way.
    expected = 2 * CLEAR + ACK + 2 * (FIRST + 8 * FULL + LAST) + 20 * ACK
    assert broadcast(tmp_path, 10, replace(SENDING, window_packets=1)) == expected * BYTE_NS


def test_every_message_has_headers_and_an_acknowledgement_of_its_own(tmp_path: Path) -> None:
    # Four of one packet: 16 bytes of RETH each; the last has immediate data, too.
    expected = 2 * CLEAR + ACK + 4 * (HEADER + 16 + MTU) + 4 + (HEADER + 20 + MTU) + 2 * ACK
    assert broadcast(tmp_path, 4, replace(SENDING, message_bytes=MTU)) == expected * BYTE_NS


def test_an_acknowledgement_behind_payload_holds_up_the_window(tmp_path: Path) -> None:
    # Both hosts of a leaf send one to the other leaf's over the one uplink, and the other way round.
    play = (tmp_path, UPLINK, 4, CommKind.ALL_TO_ALL, "pairwise")
    wide, narrow = (
        walked(*play, size_bytes=256 * MTU, sending=replace(SENDING, window_packets=packets)) for packets in (64, 8)
    )
    bound = 4 * 64 * FULL * BYTE_NS  # what crosses an uplink
    assert wide is not None
    assert narrow is not None
    assert bound < wide < narrow


def test_ranks_of_a_host_exchange_in_no_time(tmp_path: Path) -> None:
    text = "hosts:\n  - {name: h0, per_rank: 10.0.0.0/24, rate: 100Mbit}\n"
    assert walked(tmp_path, text, 2, CommKind.ALL_REDUCE, "ring", size_bytes=100 * MTU) == 0


def test_a_link_without_a_rate_leaves_the_time_open(tmp_path: Path) -> None:
    assert broadcast(tmp_path, 10, text=PAIR.replace(", rate: 100Mbit}", "}")) is None


def test_a_sender_that_would_time_out_leaves_the_time_open(tmp_path: Path) -> None:
    assert broadcast(tmp_path, 10, replace(SENDING, timeout_ns=2 * FULL * BYTE_NS)) is None


def test_a_queue_that_would_overflow_leaves_the_time_open(tmp_path: Path) -> None:
    text = """hosts:
  - {name: h0, address: 10.0.0.1}
  - {name: h1, address: 10.0.0.2}
  - {name: h2, address: 10.0.0.3}
switches:
  - {name: sw0, queue: QUEUE}
links:
  - {endpoints: ["h0:eth0", "sw0:p0"], rate: 100Mbit}
  - {endpoints: ["h1:eth0", "sw0:p1"], rate: 100Mbit}
  - {endpoints: ["h2:eth0", "sw0:p2"], rate: 100Mbit}
"""
    times = [
        walked(
            tmp_path, text.replace("QUEUE", depth), 3, CommKind.GATHER, "parallel", size_bytes=99 * MTU
        )  # two windows of 32 packets at one port
        for depth in ("20K", "70K")
    ]
    assert times[0] is None
    assert times[1] is not None


def test_what_is_too_much_to_walk_is_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packet_simulation, "MOST_FRAMES", 22)
    assert broadcast(tmp_path, 8) is not None
    assert broadcast(tmp_path, 9) is None
