from pathlib import Path
from typing import Any

import pytest

from emulator.controller.recording.topology_description import describe_dut, describe_topology
from emulator.topology.load import load_topology
from emulator.views.columns.figures import NONE, link_rate_cell
from emulator.views.html.facts import PageFacts, read_facts
from emulator.views.html.page.document import render
from emulator.views.html.run_page import run_page
from emulator.views.html.sections.method import comparability, oversubscription
from emulator.views.html.sections.topology_drawing import NetworkDrawing, topology_drawing
from tests.support.command import ROOT
from tests.support.runs import collective, ranks, write_run


def facts(folder: Path, name: str, **fields: Any) -> PageFacts:
    topology = load_topology(ROOT / "topologies" / f"{name}.yaml", ranks=2)
    fields |= {"topology": describe_topology(topology), "dut": describe_dut(topology)}
    samples = collective([0, 0], [10, 10])
    return read_facts(write_run(folder / "run", samples, iterations={0: ranks((0, 10), (0, 10))}, **fields))


def drawn(found: PageFacts) -> NetworkDrawing:
    plan = topology_drawing(found).drawing
    assert isinstance(plan, NetworkDrawing)
    return plan


def test_switches_stand_above_what_is_plugged_into_them(tmp_path: Path) -> None:
    plan = drawn(facts(tmp_path, "leaf-spine-2x2"))
    height = {box.name: box.y for box in plan.boxes}
    assert height["spine0"] == height["spine1"] < height["leaf0"] == height["leaf1"] < height["h0"] == height["h7"]
    assert {box.name for box in plan.boxes if box.is_tested} == {"leaf0", "leaf1", "spine0", "spine1"}
    assert len(plan.lines) == 12
    assert any(line.about == "h0:eth0 – leaf0:p0: 20 Mbit/s, MTU 9000 bytes" for line in plan.lines)  # noqa: RUF001


def test_a_large_topology_is_drawn_in_part(tmp_path: Path) -> None:
    hosts = [{"name": f"h{n}", "interfaces": [{"name": "eth0", "rate_bps": 10**9}]} for n in range(1_000)]
    topology = {"name": "many", "hosts": hosts, "host_index": [0, 999], "network": None}
    samples = collective([0, 0], [10, 10])
    plan = drawn(read_facts(write_run(tmp_path / "run", samples, topology=topology)))
    assert [box.below for box in plan.boxes if box.is_rest] == ["989 more"]
    assert len(plan.boxes) == 13


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in (ROOT / "topologies").glob("*.yaml") if "large" not in path.stem)
)
def test_every_ready_topology_has_a_drawing_inside_its_frame(tmp_path: Path, name: str) -> None:
    found = facts(tmp_path, name)
    plan = drawn(found)
    assert all(0 <= box.x - box.width / 2 <= box.x + box.width / 2 <= plan.width for box in plan.boxes)
    assert all(0 < box.y < plan.height for box in plan.boxes)
    assert "<svg viewBox" in render(run_page(found), with_library=False)


@pytest.mark.parametrize(
    ("name", "ratio"),
    [("leaf-spine-2x2", "2:1"), ("two-hosts-switch", "none: a single switch without uplinks"), ("two-hosts", NONE)],
)
def test_oversubscription_is_that_of_the_leaves(tmp_path: Path, name: str, ratio: str) -> None:
    assert oversubscription(facts(tmp_path, name).manifest) == ratio


def test_the_comparability_set_has_the_drafts_parameters(tmp_path: Path) -> None:
    lines = dict(list(row) for row in comparability(facts(tmp_path, "leaf-spine-2x2")).rows)
    assert lines["Participating ranks N"] == "2"
    assert lines["Line rate of a rank's port"] == "20 Mbit/s"
    assert lines["Leaf oversubscription"] == "2:1"
    assert lines["Collectives, sizes, factors"] == "all_reduce 1000 B × 2 ranks, factor 1"  # noqa: RUF001


@pytest.mark.parametrize(
    ("rate", "words"), [(None, NONE), (10**11, "100 Gbit/s"), (10**8, "100 Mbit/s"), (5, "5 bit/s")]
)
def test_rates_are_written_with_their_unit(rate: int | None, words: str) -> None:
    assert link_rate_cell(rate) == words
