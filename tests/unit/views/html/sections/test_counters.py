from pathlib import Path
from typing import Any

from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.writer import RunWriter
from emulator.views.html.facts import PageFacts, read_facts
from emulator.views.html.page.document import Chart, PageSection, Table, Text
from emulator.views.html.sections.counters import count_drops, device_counters
from tests.support.runs import collective, columns, manifest, ranks

SECOND = 1_000_000_000


def facts(folder: Path, *readings: tuple[int, str, str, int]) -> PageFacts:
    """Of a run with readings (second, interface, counter, value) of a switch."""
    with RunWriter(folder, manifest()) as writer:
        writer.add_samples(columns(collective([0, 0], [10, 10])))
        writer.add_iteration(0, ranks((0, 10), (0, 10)))
        names = ("time_ns", "interface", "counter", "value")
        rows: dict[str, list[Any]] = {name: [one[at] for one in readings] for at, name in enumerate(names)}
        if readings:
            rows["time_ns"] = [at * SECOND for at in rows["time_ns"]]
            writer.add_counters(rows | {"device": ["leaf0"] * len(readings)})
    return read_facts(read_run(folder))


def test_without_readings_the_section_says_so(tmp_path: Path) -> None:
    (block,) = device_counters(facts(tmp_path / "run")).blocks
    assert isinstance(block, Text)
    assert "No device counters were recorded" in block.text
    assert count_drops(facts(tmp_path / "other").counters) is None


def test_drops_are_what_was_counted_between_the_first_and_the_last_reading(tmp_path: Path) -> None:
    found = facts(
        tmp_path / "run", (5, "p0", "qdisc_drops", 100), (7, "p0", "qdisc_drops", 103), (6, "p1", "rx_dropped", 9)
    )
    assert count_drops(found.counters) == {"qdisc_drops": 3, "rx_dropped": 0}


def test_cumulative_counters_are_drawn_as_increase_per_second_and_levels_as_they_are(tmp_path: Path) -> None:
    readings = [(9, "p0", "tx_bytes", 900), (5, "p0", "tx_bytes", 100), (7, "p0", "tx_bytes", 500)]
    levels = [(5, "p0", "qdisc_backlog_bytes", 3), (7, "p0", "qdisc_backlog_bytes", 1)]
    section = device_counters(facts(tmp_path / "run", *readings, *levels))
    points = _chart(section).picture.data["points"]
    drawn = list(zip(points["counter"], points["time_ns"], points["value"], strict=True))
    assert drawn == [
        ("qdisc_backlog_bytes", 0, 3),
        ("qdisc_backlog_bytes", 2 * SECOND, 1),
        ("tx_bytes", 2 * SECOND, 200),
        ("tx_bytes", 4 * SECOND, 200),
    ]
    table = next(one for one in section.blocks if isinstance(one, Table))
    assert [list(row) for row in table.rows] == [
        ["leaf0", "p0", "tx_bytes", "800", ""],
        ["leaf0", "p0", "qdisc_backlog_bytes", "", "3"],
    ]


def _chart(section: PageSection) -> Chart:
    return next(one for one in section.blocks if isinstance(one, Chart))
