"""What had still to move is written where a rank was late: 4 ranks on two hosts, 4,000 bytes each, 8 ns a byte."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from emulator.controller.recording.late_posts import add_remaining_ideals
from emulator.planner.network.header_overhead import WireOverhead
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.topology.model import Host, Topology
from emulator.trace.meaning.workload import build_workload
from tests.support.runs import Row, collective, columns, manifest
from tests.support.traces import coll, rank_trace

ON = Topology("t", [Host("h0", 10**9), Host("h1", 10**9)], (0, 0, 1, 1), ("127.0.0.1",) * 4)
WORKLOAD = build_workload(
    [rank_trace(rank, [coll(1, "all_to_all", 4_000), coll(2, "all_to_all", 4_000)]) for rank in range(4)]
)
ALL_NS, HALF_NS = 32_000, 16_000
LONG_NS = 10**6


def played(posts: Sequence[int], *, dones: Sequence[int] = (), iteration: int = 0, instance: int = 0) -> list[Row]:
    dones = dones or [max(posts) + ALL_NS] * 4
    rows = collective(posts, dones, kind="all_to_all", iteration=iteration, instance=instance, ideal_ns=ALL_NS)
    return [one | {"arrival_ns": one["done_ns"]} for one in rows]


def remaining(folder: Path, rows: Sequence[Row], **bounds: int) -> dict[tuple[int, int], set[int | None]]:
    """(iteration, instance) → what its rows have."""
    with RunWriter(folder, manifest()) as writer:
        writer.add(RunTable.SAMPLES, columns(rows))
        add_remaining_ideals(
            writer,
            WORKLOAD,
            ON,
            ideal_ns=np.array([ALL_NS] * 2),
            algorithm_of=lambda _: "parallel",
            overhead=WireOverhead(1, 1),
            seed=1,
            **bounds,
        )
        table = writer.run().table(RunTable.SAMPLES, ["iteration", "instance", "remaining_ideal_ns"])
    found: dict[tuple[int, int], set[int | None]] = {}
    for row in table.to_pylist():
        found.setdefault((row["iteration"], row["instance"]), set()).add(row["remaining_ideal_ns"])
    return found


def test_the_rows_of_late_ranks_get_what_was_left(tmp_path: Path) -> None:
    rows = [
        *played([0, 0, 0, LONG_NS], iteration=-1),
        *played([0, 0, 0, 160]),  # 0.5 % of the ideal
        *played([LONG_NS, 0, 0, 0], iteration=1),
        *reversed(played([0, 0, LONG_NS, 0], iteration=2)),
    ]
    found = remaining(tmp_path / "run", rows)
    assert found == {(-1, 0): {None}, (0, 0): {None}, (1, 0): {HALF_NS}, (2, 0): {HALF_NS}}


def test_a_rank_that_the_collective_before_kept_was_not_late(tmp_path: Path) -> None:
    before = played([0, 0, 0, 0], dones=[100_000, 100_000, 100_000, 100_000 + LONG_NS])
    after = played([100_000, 100_000, 100_000, 100_000 + LONG_NS], instance=1)
    assert remaining(tmp_path / "run", [*before, *after])[0, 1] == {ALL_NS}


def test_an_acknowledgement_keeps_no_port_after_the_last_arrival(tmp_path: Path) -> None:
    before = [one | {"arrival_ns": 90_000} for one in played([0, 0, 0, 0], dones=[100_000] * 3 + [100_000 + LONG_NS])]
    after = played([100_000, 100_000, 100_000, 100_000 + LONG_NS], instance=1)
    assert remaining(tmp_path / "run", [*before, *after])[0, 1] == {HALF_NS}


def test_of_too_many_a_random_sample_is_worked_out(tmp_path: Path) -> None:
    rows = [one for number in range(20) for one in played([0, 0, 0, LONG_NS * (number % 2)], iteration=number)]
    found = remaining(tmp_path / "run", rows, most_followed=5 * 12)  # transfers of five
    worked_out = {number: value for (number, _), value in found.items() if value != {None}}
    assert len(worked_out) == 5
    assert all(value == {HALF_NS if number % 2 else ALL_NS} for number, value in worked_out.items())
    assert len({number % 2 for number in worked_out}) == 2  # late ones and others


def test_without_late_ranks_the_table_stays(tmp_path: Path) -> None:
    assert remaining(tmp_path / "run", played([5, 5, 5, 5])) == {(0, 0): {None}}
