"""Recorded steps: which instances they belong to, which cost most, and what was counted there meanwhile."""

from collections.abc import Sequence
from pathlib import Path

from emulator.control.observations import FlowCounters
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.results.statistics.samples.transfers import read_steps
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.worst.worst_steps import WorstStep
from tests.support.runs import collective, columns, manifest, pair
from tests.support.steps import END, POSTS, run, step


def worst(of: Run) -> Sequence[WorstStep]:
    return summarise(of).worst_steps


RING = [step(rank, (rank + 1) % 4, 100, 150) for rank in range(3)]


def test_a_run_without_steps_has_none(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", manifest()) as writer:
        writer.add(RunTable.SAMPLES, columns(collective([0, 0], [9, 9])))
    assert read_steps(read_run(tmp_path / "run")) is None
    assert worst(read_run(tmp_path / "run")) == ()


def test_steps_belong_to_an_instance_and_its_class(tmp_path: Path) -> None:
    steps = read_steps(run(tmp_path / "run", RING))
    (one,) = steps.instances
    assert str(one.key) == "all_reduce, 4 ranks, 1000 B, ring, between hosts"
    assert (one.iteration, one.instance, one.ranks, one.zero_ns, one.cct_ns) == (3, 7, (0, 1, 2, 3), 100, 900)


def test_waiting_for_the_last_rank_is_not_the_transfers_time(tmp_path: Path) -> None:
    steps = read_steps(run(tmp_path / "run", [step(0, 1, 0, 150), step(1, 2, 300, 350), step(2, 3, 300, None)]))
    assert steps.time_ns.tolist() == [50, 50, -1]


def test_the_step_that_took_longer_than_the_others_is_named_with_all_that_is_known(tmp_path: Path) -> None:
    late = step(3, 0, 100, 900, step=2, lane=1, qpn=17, source_port=50_001, path="h3 - sw0 - h0")
    steps = [*RING, late | {"ideal_post_ns": 10, "ideal_arrival_ns": 70}]
    (one,) = worst(run(tmp_path / "run", steps))
    assert (one.src, one.dst, one.source, one.destination) == (3, 0, "h3:eth0", "h0:eth0")
    assert (one.iteration, one.instance, one.lane, one.step) == (3, 7, 1, 2)
    assert (one.collective, one.members, one.collective_bytes, one.size_bytes) == ("all_reduce", 4, 1000, 250)
    assert (one.waited_for, one.time_ns, one.above_median_ns, one.above_ideal_ns) == ("payload", 800, 750, 740)
    assert (one.qpn, one.source_port, one.path) == (17, 50_001, "h3 - sw0 - h0")


def test_a_step_is_compared_with_others_of_its_size(tmp_path: Path) -> None:
    large = [step(rank, (rank + 1) % 4, 200, 700, size_bytes=4000 + rank) for rank in range(4)]
    assert worst(run(tmp_path / "run", [*RING, *large])) == ()


def test_without_enough_to_compare_with_the_ideal_decides(tmp_path: Path) -> None:
    (one,) = worst(run(tmp_path / "run", [step(0, 1, 100, 900, ideal_post_ns=0, ideal_arrival_ns=300)]))
    assert (one.above_median_ns, one.above_ideal_ns) == (None, 500)
    assert worst(run(tmp_path / "other", [step(0, 1, 100, 900)])) == ()


def test_an_acknowledgement_that_everything_waited_for_is_named(tmp_path: Path) -> None:
    (one,) = worst(run(tmp_path / "run", [*RING, step(3, 0, 100, 150, acknowledged_ns=990)]))
    assert (one.src, one.dst, one.waited_for, one.time_ns, one.above_median_ns) == (3, 0, "ack", 890, 840)


def test_a_pair_is_done_when_it_has_arrived(tmp_path: Path) -> None:
    samples = pair(10, 300, received_post=200, iteration=3, instance=7)
    steps = read_steps(run(tmp_path / "run", [step(0, 1, 10, 300, acknowledged_ns=990)], samples=samples))
    assert (steps.instances[0].zero_ns, steps.instances[0].cct_ns, steps.time_ns.tolist()) == (10, 290, [290])
    assert worst(read_run(tmp_path / "run")) == ()


def test_what_was_counted_meanwhile_is_of_both_directions_and_of_the_iteration(tmp_path: Path) -> None:
    events = [
        FlowCounters(1, 2, qpn=17, retransmits=3, timeouts=1),
        FlowCounters(2, 1, qpn=16, retransmits=1),
        FlowCounters(0, 1, qpn=17, retransmits=50),
    ]
    readings = [(-500, 4), (-1, 5), (400, 7), (1001, 9), (5000, 90)]
    steps = [*RING[:1], *RING[2:], step(3, 0, 100, 150), step(1, 2, 100, 900)]
    (one,) = worst(run(tmp_path / "run", steps, events=events, readings=readings))
    assert one.events == {"retransmits": 4, "timeouts": 1}
    assert one.device_drops == 4


def test_a_device_that_was_not_monitored_is_not_known_to_have_dropped_nothing(tmp_path: Path) -> None:
    (one,) = worst(run(tmp_path / "run", [*RING, step(3, 0, 100, 900)]))
    assert (one.events, one.device_drops) == ({}, None)


def test_an_instance_that_not_all_completed_is_left_out(tmp_path: Path) -> None:
    samples = collective(POSTS, [END] * 4, iteration=3, instance=7)[:3]
    steps = read_steps(run(tmp_path / "run", RING, samples=samples))
    assert steps.instances == []
