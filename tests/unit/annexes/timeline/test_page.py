"""Rates over time in a report."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from emulator.annexes.timeline.page import POINTS, job_rates, sections, steps
from emulator.annexes.timeline.rates import Rates
from emulator.control.parameter import Parameter
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import COUNTERS_SCHEMA, TIMELINE_SCHEMA, RunTable, to_batch
from emulator.results.run_folder.writer import RunWriter
from emulator.views.html.page.document import Chart, Table
from tests.support.report import block_of, drawn
from tests.support.runs import manifest

MS = 1_000_000


def table(*rows: tuple[int, ...], bin_ns: int = MS) -> pa.Table:
    """Of (src, dst, bin, bytes, retransmits, marks)."""
    names = ("src", "dst", "start_ns", "bytes", "retransmits", "ecn_marks")
    columns: dict[str, Any] = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    columns["start_ns"] = [one * bin_ns for one in columns["start_ns"]]
    return pa.Table.from_batches([to_batch(TIMELINE_SCHEMA, columns | {"qpn": 17, "bin_ns": bin_ns})])


TWO = table((0, 1, 5, 1000, 0, 0), (1, 0, 5, 500, 0, 0), (0, 1, 6, 1000, 0, 0), (0, 1, 9, 3000, 0, 2))


def test_a_rate_is_the_payload_of_a_bin_and_a_pause_is_0() -> None:
    to_1, to_0 = Rates(TWO, manifest()).ports()
    assert (to_1.name, to_1.payload, to_1.ecn_marks, to_1.flows, to_1.jain) == ("rank 1", 5000, 2, 1, None)
    assert to_1.rate_bps.tolist() == [8e6, 8e6, 0, 0, 24e6]
    assert list(steps(to_1)) == [(5 * MS, 8e6), (7 * MS, 0), (9 * MS, 24e6), (10 * MS, 0)]
    assert list(steps(to_0)) == [(5 * MS, 4e6), (6 * MS, 0)]
    assert to_1.rate_cv == pytest.approx(1.095, abs=0.001)


def test_flows_with_events_come_first() -> None:
    rows = table((0, 1, 5, 10, 0, 0), (1, 0, 5, 900, 0, 0), (0, 1, 6, 0, 1, 0))
    assert [one.name for one in Rates(rows, manifest()).flows()] == [
        "0 to 1, queue pair 17",
        "1 to 0, queue pair 17",
    ]


def test_many_bins_are_drawn_as_fewer_with_the_same_payload() -> None:
    rows = table(*((0, 1, at, 100 + at, 0, 0) for at in range(1000)))
    [recorded] = Rates(rows, manifest()).ports()
    drawn_ = recorded.joined(3)
    assert (recorded.bin_ns, drawn_.bin_ns, len(drawn_.rate_bps)) == (MS, 3 * MS, 334)
    assert drawn_.rate_bps.sum() * drawn_.bin_ns / 8e9 == pytest.approx(sum(range(100, 1100)))
    [found] = sections(rows, manifest())
    assert len(drawn(block_of(found, "rates-over-time", Chart), "points")) <= 2 * (POINTS + 1)


def test_flows_of_one_port_share_it_fairly_or_not() -> None:
    facts = manifest()
    [fair] = Rates(table((0, 1, 5, 100, 0, 0), (2, 1, 5, 100, 0, 0)), facts).ports()
    assert (fair.flows, fair.jain) == (2, 1.0)
    [unfair] = Rates(table((0, 1, 5, 300, 0, 0), (2, 1, 5, 100, 0, 0)), facts).ports()
    assert unfair.jain == pytest.approx(0.8)


def test_the_section_has_a_picture_and_the_numbers() -> None:
    [found] = sections(TWO, manifest())
    points = drawn(block_of(found, "rates-over-time", Chart), "points")
    assert {(one["kind"], one["name"]) for one in points} == {
        ("port", "rank 0"),
        ("port", "rank 1"),
        ("flow", "0 to 1, queue pair 17"),
        ("flow", "1 to 0, queue pair 17"),
    }
    assert block_of(found, "rates-table", Table).rows[0][:3] == ["rank 1", "1", "5,000"]
    assert list(sections(TWO.slice(0, 0), manifest())) == []


def test_bins_that_became_longer_are_said_so() -> None:
    facts = manifest(parameters={"roce.timeline": Parameter("1ms")})
    for bin_ns, text in ((MS, "Bins of 1 ms. "), (4 * MS, "Bins of 4 ms instead of 1ms, because")):
        [found] = sections(table((0, 1, 5, 10, 0, 0), bin_ns=bin_ns), facts)
        assert block_of(found, "rates-over-time", Chart).about.startswith(text)


def readings(*rows: tuple[str, int, int], device: str = "sw0") -> pa.Table:
    """Of (counter, ms, value) at sw0:p1."""
    counter, at, value = (list(column) for column in zip(*rows, strict=True))
    facts = {"device": device, "interface": "p1", "counter": counter, "value": value}
    return pa.Table.from_batches([to_batch(COUNTERS_SCHEMA, facts | {"time_ns": [one * MS for one in at]})])


def test_queues_are_drawn_in_the_time_of_the_rates() -> None:
    """A level until it is read again, the deepest of a step; drops spread between readings; marks where they came."""
    depth = [("qdisc_backlog_bytes", at, value) for at, value in ((2, 40), (6, 0), (7, 900), (8, 10))]
    drops = [("qdisc_drops", at, value) for at, value in ((0, 3), (6, 3), (8, 5))]
    [found] = sections(TWO, manifest(), (), readings(*depth, *drops))
    chart = block_of(found, "queues-over-time", Chart)
    points = {}
    for one in drawn(chart, "points"):
        points.setdefault((one["kind"], one["name"]), []).append((one["time_ns"] // MS, one["value"]))
    assert points == {
        ("depth", "sw0:p1"): [(0, 40), (1, 0), (2, 900), (3, 10), (5, 10)],
        ("drops", "sw0:p1"): [(0, 0), (1, 1000), (3, 0), (5, 0)],
        ("marks", "rank 1"): [(0, 0), (4, 2000), (5, 2000)],
    }
    assert [one for one, _ in chart.picture.choices] == ["depth", "drops", "marks"]


def test_queues_without_a_device_and_marks_are_not_drawn() -> None:
    rows, facts = table((0, 1, 5, 1000, 0, 0)), manifest(topology={"hosts": [{"name": "h0"}]})
    quiet = readings(("rx_packets", 5, 1), ("rx_packets", 6, 7), ("qdisc_backlog_bytes", 5, 0))
    for counters in (None, quiet, readings(("qdisc_backlog_bytes", 5, 900), device="h0")):
        [found] = sections(rows, facts, (), counters)
        assert [one.identifier for one in found.blocks] == ["rates-over-time", "rates-table"]


def test_each_job_of_a_session_has_a_line_on_their_clock(tmp_path: Path) -> None:
    runs = {}
    for name, rows in (("a", TWO), ("b", table((0, 1, 4, 500, 0, 0), (2, 1, 4, 500, 0, 0))), ("quiet", None)):
        with RunWriter(tmp_path / name, manifest()) as writer:
            if rows is not None:
                writer.add(RunTable.TIMELINE, {column: rows[column].to_pylist() for column in rows.column_names})
        runs[name] = read_run(tmp_path / name)
    [chart] = job_rates(runs)
    assert [(one["name"], one["time_ns"] // MS, one["rate_bps"]) for one in drawn(chart, "points")] == [
        ("a", 1, 12_000_000),
        ("a", 2, 8_000_000),
        ("a", 3, 0),
        ("a", 5, 24_000_000),
        ("a", 6, 0),
        ("b", 0, 8_000_000),
        ("b", 1, 0),
    ]
    assert list(job_rates({"quiet": runs["quiet"]})) == []


HOSTS = {
    "hosts": [{"name": name, "interfaces": [{"name": "eth0"}]} for name in ("h0", "h1")],
    "host_index": [0, 1],
}


@pytest.mark.parametrize(("ends_fair", "converged"), [(True, "60 ms"), (False, "not in 200 ms")])
def test_flows_of_all_jobs_share_a_port(tmp_path: Path, *, ends_fair: bool, converged: str) -> None:
    """Two flows of a job have the port; two of another one come, get a tenth each for 60 ms, and then a quarter."""
    runs = {}
    for name, begin, few, bin_ns in (("a", 1, 400, MS), ("b", 100, 100, 2 * MS)):
        sizes = [500 if at < 100 else few if at < 160 or not ends_fair else 250 for at in range(begin, 300)]
        rows = [(0, 1, begin + at, size) for at, size in enumerate(sizes)] * 2
        src, dst, at, size = (list(column) for column in zip(*rows, strict=True))
        qpn = [17] * len(sizes) + [18] * len(sizes)
        start_ns = [one * MS // bin_ns * bin_ns for one in at]
        with RunWriter(tmp_path / name, manifest(topology=HOSTS)) as writer:
            columns = {"src": src, "dst": dst, "qpn": qpn, "start_ns": start_ns, "bytes": size}
            others = {"bin_ns": bin_ns, "retransmits": 0, "ecn_marks": 0}
            writer.add(RunTable.TIMELINE, columns | {key: [value] * len(rows) for key, value in others.items()})
        runs[name] = read_run(tmp_path / name)
    _, shared = job_rates(runs)
    assert isinstance(shared, Table)
    fairness = "1.000" if ends_fair else f"{1000**2 / (4 * (2 * 400**2 + 2 * 100**2)):.3f}"
    mean = f"{8e-3 * 299 / 300:.3g}"  # the first of the 150 bins of 2 ms is half empty: so is its rate
    assert shared.rows == [["h1:eth0", "2", "4", mean, "0.04", fairness, converged]]
    assert len(list(job_rates({"a": runs["a"]}))) == 1
