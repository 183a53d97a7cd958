"""The budget of a figure: its parts, their sum, and what is not stated."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from uncertainties import ufloat

from emulator.control.parameter import Parameter
from emulator.results.run_folder.manifest import KERNEL_OBSERVATION_POINT, HostFacts, Manifest, TimeAxis
from emulator.results.statistics.samples.classes import ClassKey
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.statistics.uncertainty import WITHIN_TWO_SIGMA, Budget, Repeat, Sources, repeat_of
from emulator.views.as_json import summary_to_json
from tests.support.runs import collective, manifest, ranks, timed, write_run

KNOWN = Sources(300.0, 600.0, "stamps", 0.003, "rates", 0.001)
BY_CHANCE = Repeat(0.002, 40, 10)
LAB = {"lab": {"id": "1"}}


def budgets(sources: Sources = KNOWN, repeat: Repeat = BY_CHANCE, **figures: float) -> dict[str, Budget]:
    return sources.budgets(figures, 1e6, by_time=repeat, by_rate=repeat, tester_percent=20.0)


def test_a_budget_is_what_propagation_of_its_parts_gives() -> None:
    """The oracle multiplies and divides numbers that carry their uncertainty."""
    found = budgets(cct_p50_ns=1e6, busbw_bytes_per_s=2e9, ideal_percent=80.0)
    bound = math.sqrt(3)
    time = ufloat(1e6, 0.002 * 1e6) + ufloat(0, 300 / bound) + ufloat(0, 600 / bound) + ufloat(0, 0.001 * 1e6 / bound)
    rate = ufloat(1, 0.003 / bound)
    for name, wanted in (
        ("cct_p50_ns", time),
        ("busbw_bytes_per_s", 2e15 / time),
        ("ideal_percent", 80e6 / time / rate),
    ):
        assert found[name].value == pytest.approx(wanted.nominal_value)
        assert found[name].standard == pytest.approx(wanted.std_dev)
        assert found[name].expanded == pytest.approx(2 * wanted.std_dev)
        parts = [one.standard or 0 for one in found[name].components]
        assert found[name].standard == pytest.approx(math.hypot(*parts))


def test_the_testers_share_has_a_sign_and_stands_beside() -> None:
    found = budgets(cct_p50_ns=1e6, busbw_bytes_per_s=2e9)
    assert found["cct_p50_ns"].bias == pytest.approx(2e5)
    assert found["busbw_bytes_per_s"].bias == pytest.approx(2e9 - 2e9 / 0.8)
    without = KNOWN.budgets({"cct_p50_ns": 1e6}, 1e6, by_time=BY_CHANCE, by_rate=BY_CHANCE)["cct_p50_ns"]
    assert (without.bias, without.expanded) == (None, found["cct_p50_ns"].expanded)


@pytest.mark.parametrize(
    ("sources", "repeat", "why"),
    [
        (KNOWN, Repeat(None, 1, why="one iteration"), "one iteration"),
        (replace(KNOWN, stamp_ns=None, stamp="not known: why"), BY_CHANCE, "not known: why"),
        (replace(KNOWN, reference=None, reference_source="no rate"), BY_CHANCE, "no rate"),
    ],
)
def test_what_is_not_known_is_said_and_never_a_number(sources: Sources, repeat: Repeat, why: str) -> None:
    found = budgets(sources, repeat, ideal_percent=80.0)["ideal_percent"]
    assert (found.standard, found.expanded, found.relative, found.why) == (None, None, None, why)
    assert found.towards(better=True) == 0


def test_only_a_share_of_ideal_depends_on_the_rates_of_ports() -> None:
    found = budgets(replace(KNOWN, reference=None), cct_p50_ns=1e6)["cct_p50_ns"]
    assert found.expanded is not None
    assert [one.name for one in found.components] == ["repeat", "clock", "stamp", "steal"]
    assert [one.kind for one in found.components] == ["A", "B", "B", "B"]


def test_late_stamps_and_steal_only_hide_that_a_value_is_better() -> None:
    found = budgets(cct_p50_ns=1e6)["cct_p50_ns"]
    assert found.towards(better=True) == pytest.approx(found.expanded)
    assert found.towards(better=False) == pytest.approx(2 * math.hypot(2000, 300 / math.sqrt(3)))


def test_more_iterations_lessen_only_what_comes_from_chance() -> None:
    alone = Sources(0.0, 0.0, "", None, "", None)
    found = budgets(alone, cct_p50_ns=1e6)["cct_p50_ns"]  # U 4,000 ns after 40 iterations
    assert found.needs_to_decide(1e6 + 2000, better=True) == 160
    assert found.needs_to_decide(1e6 + 1000, better=False) == 640
    assert found.needs_to_decide(1e6, better=True) is None
    blurred = budgets(replace(alone, clock_ns=3000.0), cct_p50_ns=1e6)["cct_p50_ns"]
    assert blurred.needs_to_decide(1e6 + 2000, better=True) is None
    assert (blurred.needs_to_decide(1e6 + 3600, better=True) or 0) > 160


def test_twice_the_standard_uncertainty_covers_what_two_sigma_do() -> None:
    assert pytest.approx(stats.norm.cdf(2)) == WITHIN_TWO_SIGMA


def within(values: np.ndarray, reach: float) -> float:
    """Half of what lies between the values so far below and above the middle, / 2 / 104."""
    places = len(values) * np.array([0.5 - reach, 0.5 + reach]) - 0.5
    low, high = np.interp(places, np.arange(len(values)), np.sort(values))
    return float(high - low) / 4 / 104


ZIGZAG = np.array([101, 102, 103, 104, 105, 106, 107, 108, 101, 108, 102, 107, 103, 106, 104, 105])


def test_blocks_are_widened_by_students_t() -> None:
    """Ten blocks, whose shares below the median are known."""
    values = np.concatenate([ZIGZAG, ZIGZAG[::-1], ZIGZAG])
    found = repeat_of(values, np.arange(48))
    below = (values < 104) + (values == 104) / 2
    shares = [float(one.mean()) for one in np.array_split(below, 10)]
    t = stats.t.ppf(stats.norm.cdf(2), 9)
    reach = max(t * np.std(shares, ddof=1) / math.sqrt(10), 2 * np.std(below, ddof=1) / math.sqrt(48))
    assert found.blocks == 10
    assert found.relative == pytest.approx(within(values, reach))


def test_a_run_too_short_for_blocks_counts_its_iterations_as_fewer_where_neighbours_are_alike() -> None:
    values = np.array([101, 103, 102, 106, 104, 107, 105, 104, 101, 103, 102, 105, 108, 107, 103, 106])
    found = repeat_of(values, np.arange(16))
    below, ranks = (values < 104) + (values == 104) / 2, np.unique(values, return_inverse=True)[1]
    off = ranks - ranks.mean()
    alike = float(off[1:] @ off[:-1] / (off @ off))
    alike = max(0.0, alike + (1 + 3 * alike) / 16)
    t = stats.t.ppf(stats.norm.cdf(2), 15)
    reach = t * np.std(below, ddof=1) / 4 * math.sqrt((1 + alike) / (1 - alike))
    assert alike > 0.01
    assert found.blocks == 0
    assert "how much neighbours are alike" in found.source
    assert found.relative == pytest.approx(within(values, reach))


def test_equal_times_have_no_uncertainty_by_chance_and_a_wild_one_hardly_any() -> None:
    assert repeat_of(np.full(40, 1000), np.arange(40)).relative == 0
    wild = np.where(np.arange(40) % 13 == 5, 10**6, 1000 + np.arange(40) % 3)
    assert (repeat_of(wild, np.arange(40)).relative or 1) < 0.002


@pytest.mark.parametrize(
    ("iterations", "why"),
    [(1, "one iteration"), (7, "7 iterations, and 8 are the fewest"), (20, "each is much like the one before")],
)
def test_too_little_to_say_how_far_chance_reaches_is_said(iterations: int, why: str) -> None:
    found = repeat_of(1000 + np.arange(iterations), np.arange(iterations))
    assert found.relative is None
    assert why in found.why


def test_collectives_of_one_iteration_are_not_independent() -> None:
    """Ten of each iteration, all alike: as one of each, not as ten times as many iterations."""
    of_iteration = np.random.default_rng(1).integers(1000, 1100, 40)
    once = repeat_of(of_iteration, np.arange(40))
    ten_times = repeat_of(np.repeat(of_iteration, 10), np.repeat(np.arange(40), 10))
    assert ten_times.relative == pytest.approx(once.relative, rel=0.2)


@pytest.mark.parametrize(
    ("facts", "bound_ns", "source"),
    [
        ({}, None, "none of the kernel, and no calibration"),
        ({"observation_point": KERNEL_OBSERVATION_POINT}, 20_000, "kernel's time stamps"),
        ({"calibration": {"rates": [[8, 1e9]], "step_ns": 5e5, "timer_ns": 80_000}}, 80_000, "an idle agent wakes"),
        ({"calibration": {"rates": [[8, 1e9]], "step_ns": 5e5}}, 5e5, "a step of the idle tester"),
    ],
)
def test_the_error_of_stamps_is_measured_or_calibrated_or_not_known(
    facts: dict[str, object], bound_ns: float | None, source: str
) -> None:
    found = Sources.of(manifest(**facts))
    assert found.stamp_ns == bound_ns
    assert source in found.stamp


def topology(rate_bps: int | None) -> dict[str, object]:
    return {"hosts": [{"name": "h0", "interfaces": [{"rate_bps": rate_bps}]}, {"name": "h1", "rate_bps": rate_bps}]}


@pytest.mark.parametrize(
    ("made", "share"),
    [
        (manifest(topology=topology(10**9) | LAB), 0.003),
        (manifest(topology=topology(10**9)), None),
        (manifest(topology=topology(10**9), hosts=(HostFacts("a", nics=({"speed_bps": 10**9},)),)), 100e-6),
        (manifest(topology=topology(10**9), hosts=(HostFacts("a", nics=({"speed_bps": 10**10},)),)), None),
        (manifest(topology=topology(10**9), hosts=(HostFacts("a", nics=({"speed_bps": None},)),)), None),
    ],
)
def test_a_rate_is_as_sure_as_what_reports_it(made: Manifest, share: float | None) -> None:
    assert Sources.of(made).reference == share


def test_clocks_and_steal_are_those_of_the_run() -> None:
    hosts = (HostFacts("a", steal_fraction=0.001), HostFacts("b", steal_fraction=0.004), HostFacts("c"))
    found = Sources.of(manifest(clock=TimeAxis("NTP", 5, 700), hosts=hosts))
    assert (found.clock_ns, found.steal) == (700, 0.004)
    assert Sources.of(manifest()).steal is None


def run_of(folder: Path, ccts: list[int], **facts: object) -> RunSummary:
    spans = {number: ranks((0, 2 * cct), (0, cct)) for number, cct in enumerate(ccts)}
    rows = timed(*ccts, ideal_ns=min(ccts) // 2)
    facts = {"topology": topology(10**9) | LAB, "observation_point": KERNEL_OBSERVATION_POINT} | facts
    return summarise(write_run(folder, rows, iterations=spans, **facts))


CCTS = [int(one) for one in np.random.default_rng(2).integers(10_000_000, 10_100_000, 40)]


def test_a_run_has_a_budget_of_every_class_and_of_its_iterations(tmp_path: Path) -> None:
    summary = run_of(tmp_path / "run", CCTS)
    (one,) = summary.classes
    assert one.key == ClassKey("all_reduce", 2, 1000, "ring", "")
    assert set(one.uncertainty) == {"cct_p50_ns", "algbw_bytes_per_s", "busbw_bytes_per_s", "ideal_percent"}
    cct = one.uncertainty["cct_p50_ns"]
    assert cct.value == one.cct_p50_ns
    assert 0.001 < (cct.relative or 0) < 0.008
    assert one.uncertainty["busbw_bytes_per_s"].relative == pytest.approx(cct.relative)
    assert (one.uncertainty["ideal_percent"].relative or 0) > (cct.relative or 0)
    assert 0.001 < (summary.iteration.uncertainty["jct_ns"].relative or 0) < 0.008
    document = json.loads(json.dumps(summary_to_json(summary), allow_nan=False))
    stated = document["classes"][0]["uncertainty"]["cct_p50_ns"]
    assert (stated["k"], stated["expanded"]) == (2, cct.expanded)
    assert stated["components"][0].keys() == {"name", "standard", "kind", "source"}
    assert document["iteration"]["uncertainty"]["jct_ns"]["why"] == ""


def test_the_networks_part_has_a_budget_of_its_own(tmp_path: Path) -> None:
    parts = {"network_crossings": 2, "stalled_ns": 0, "core_wait_ns": 0}
    rows = [
        one
        for number, cct in enumerate(CCTS)
        for one in collective([0, 0], [cct, cct], iteration=number, network_ns=cct // 2, ideal_ns=cct // 3, **parts)
    ]
    split = {"parameters": {"roce.split": Parameter("on")}}
    (one,) = summarise(write_run(tmp_path / "run", rows, topology=topology(10**9) | LAB, **split)).classes
    stamps = {
        name: {part.name: part.standard for part in budget.components}["stamp"]
        for name, budget in (
            ("cct", one.uncertainty["cct_p50_ns"]),
            ("network", one.network.uncertainty["cct_p50_ns"]),
            ("at best", one.network.at_best.uncertainty["cct_p50_ns"]),
        )
    }
    late = pytest.approx(20_000 / math.sqrt(3), rel=1e-3)
    assert stamps["cct"] == late
    assert (stamps["network"] or 0) / 2 == late
    assert stamps["at best"] == 0  # it is off already
    document = summary_to_json(summarise(write_run(tmp_path / "again", rows, **split)))["classes"][0]
    assert "uncertainty" not in document["network"]
    assert "uncertainty" in document


def test_the_worked_example_of_the_page_is_what_the_code_computes() -> None:
    page = (Path(__file__).parents[4] / "docs/uncertainty.md").read_text(encoding="utf-8")
    example = page.partition("## A worked example")[2]
    times_ns = np.array([round(float(one) * 1e6) for one in re.findall(r"\b14[56]\.\d+", example)[:20]])
    repeat = repeat_of(times_ns, np.arange(20))
    value_ns, ideal_ns = float(np.sort(times_ns)[9]), 144.966e6
    sources = Sources(0.0, 20_000, "kernel", 0.003, "lab", 0.001)
    figures = {"cct_p50_ns": value_ns, "ideal_percent": 100 * ideal_ns / value_ns}
    found = sources.budgets(figures, value_ns, by_time=repeat, by_rate=repeat)
    cct, ideal = ({part.name: part.standard or 0 for part in found[name].components} for name in figures)
    rows = {
        "value": (f"{value_ns / 1e6:.2f} ms", f"{figures['ideal_percent']:.2f} %"),
        "repeat: 0.0485 ms / 4": (f"{cct['repeat'] / 1e3:.0f} µs", f"{ideal['repeat']:.4f} %"),
        "stamp: 20 µs / √3": (f"{cct['stamp'] / 1e3:.1f} µs", f"{ideal['stamp']:.4f} %"),
        "reference: 0.3 % / √3": ("–", f"{ideal['reference']:.4f} %"),  # noqa: RUF001
        "steal: 0.1 % / √3": (f"{cct['steal'] / 1e3:.1f} µs", f"{ideal['steal']:.4f} %"),
        "u": (f"{(found['cct_p50_ns'].standard or 0) / 1e3:.1f} µs", f"{found['ideal_percent'].standard or 0:.4f} %"),
        "**U (k = 2)**": (
            f"**{(found['cct_p50_ns'].expanded or 0) / 1e3:.0f} µs**",
            f"**{found['ideal_percent'].expanded or 0:.3f} %**",
        ),
    }
    for part, (of_cct, of_ideal) in rows.items():
        assert f"| {part} | {of_cct} | {of_ideal} |" in example
    assert repeat.blocks == 10
    below = (times_ns < value_ns) + (times_ns == value_ns) / 2
    spread = np.std([one.mean() for one in np.array_split(below, 10)], ddof=1)
    assert f"shares below the median is {spread:.3f}" in example.replace("\n", " ")
    assert f"{stats.t.ppf(stats.norm.cdf(2), 9) * spread / math.sqrt(10):.3f}" in example
    assert f"would have {2 * np.std(below, ddof=1) / math.sqrt(20):.3f}" in example
    assert ideal["reference"] > 0
    assert (found["ideal_percent"].towards(better=False), found["ideal_percent"].value) > (0, 99.5)
