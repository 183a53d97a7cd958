"""Frames at queues, against times worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from emulator.planner.network.packet_links import LinkFacts, LinkQueues, UnknownTime
from emulator.planner.network.routing import Router
from emulator.topology.load import load_topology

# 8 Mbit/s: a byte takes 1 us.
BYTE_NS = 1000
STAR = """hosts: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2}, {name: c, address: 10.0.0.3}]
switches: [{name: s, queue: "1000"}]
links:
  - {endpoints: ["a:eth0", "s:a"], rate: 8Mbit}
  - {endpoints: ["b:eth0", "s:b"], rate: 8Mbit}
  - {endpoints: ["c:eth0", "s:c"], rate: 8Mbit, latency: 5us}
"""


@dataclass
class Frame:
    bytes: int
    path: Sequence[int]
    hop: int = 0


def facts_of(tmp_path: Path, text: str = STAR, ranks: int = 3) -> LinkFacts:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    topology = load_topology(path, ranks=ranks)
    rates = np.repeat([float(link.rate_bps or np.nan) for link in topology.network.links], 2)
    return LinkFacts(Router(topology), rates)


def arrivals(facts: LinkFacts, *frames: Frame, most_frames: int = 100) -> list[tuple[float, int]]:
    """(time in ns, bytes) of each arrival of frames that are sent together."""
    seen: list[tuple[float, int]] = []
    queues = LinkQueues[Frame](
        facts,
        next_frame=lambda _: None,
        arrive=lambda frame: seen.append((queues.now_ns, frame.bytes)),
        most_frames=most_frames,
    )
    for frame in frames:
        queues.send(frame)
    queues.run()
    return seen


def test_a_frame_is_stored_and_forwarded_at_every_link(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    assert arrivals(facts, Frame(100, facts.path(0, 1))) == [(2 * 100 * BYTE_NS, 100)]


def test_latency_adds_to_the_link_that_has_it(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    assert arrivals(facts, Frame(100, facts.path(0, 2))) == [(200 * BYTE_NS + 5000, 100)]


def test_frames_to_one_port_wait_for_each_other(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    both = arrivals(facts, Frame(100, facts.path(0, 1)), Frame(100, facts.path(2, 1)))
    assert both == [(200 * BYTE_NS, 100), (300 * BYTE_NS, 100)]


def test_a_frame_within_a_host_takes_no_time(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    assert facts.path(1, 1) == ()
    assert arrivals(facts, Frame(100, ())) == [(0, 100)]


def test_an_overfull_queue_has_no_known_time(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    # Of two frames of 600 bytes, one is being sent and the other fits; a third makes 1,200 bytes.
    two = [Frame(600, facts.path(0, 1)), Frame(600, facts.path(2, 1))]
    assert len(arrivals(facts, *two)) == 2
    slow = facts.path(0, 1)[1:]
    with pytest.raises(UnknownTime):
        arrivals(facts, *(Frame(600, slow) for _ in range(3)))


def test_too_many_frames_end_the_simulation(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    with pytest.raises(UnknownTime):
        arrivals(facts, Frame(1, facts.path(0, 1)), most_frames=1)


def test_a_link_without_a_rate_has_no_known_time(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, STAR.replace('"s:b"], rate: 8Mbit', '"s:b"]'))
    with pytest.raises(UnknownTime):
        facts.path(0, 1)


def test_an_idle_link_asks_for_frames_and_a_busy_one_does_not(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    path, asked, left = facts.path(0, 1), [], [Frame(10, facts.path(0, 1))]

    def next_frame(link: int) -> Frame | None:
        asked.append(link)
        return left.pop() if left and link == path[0] else None

    queues = LinkQueues[Frame](facts, next_frame=next_frame, arrive=lambda _: None, most_frames=10)
    queues.wake(path[0])
    queues.wake(path[0])
    assert asked == [path[0]]
    queues.run()
    assert asked[1] == path[0]  # idle again after the frame has left
