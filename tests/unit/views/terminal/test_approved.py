"""Tables of the terminal as somebody has read and approved them, case by case, and the widths that they fit."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from rich.console import Group, RenderableType
from rich.text import Text

from emulator.control.observations import FlowCounters
from emulator.device.lab.design import make_design
from emulator.device.lab.links import PortLink
from emulator.device.lab.state import UP, LabState, Owner
from emulator.device.lab.status import QUEUE_BACKLOG, QUEUE_DROPS, LabStatus
from emulator.results.comparison.groups import RunGroup
from emulator.results.run_folder.manifest import RUNNING, Exclusion, HostFacts, Manifest, RunFigures, Scaling, Trials
from emulator.results.run_folder.store import UNREADABLE, Removal, StoredRun
from emulator.results.statistics.events import Migrations
from emulator.results.statistics.method.distribution import distributions
from emulator.results.statistics.pair_sweep import PairTable, find_slow
from emulator.results.statistics.samples.iterations import measurements
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.statistics.sweep import SweepRow, SweepTable
from emulator.results.statistics.worst.stragglers import lateness
from emulator.topology.load import load_topology
from emulator.trace.analysis.summary import summarise as summarise_trace
from emulator.trace.meaning.meaning import TraceOptions
from emulator.trace.meaning.model import CommKind
from emulator.trace.meaning.workload import build_workload
from emulator.views.terminal import campaign_table, comparison_table, summary_table, trace_summary
from emulator.views.terminal.lab_picture import draw
from emulator.views.terminal.pair_table import render_pairs
from emulator.views.terminal.store_table import render_removals, render_runs, render_statistics
from emulator.views.terminal.sweep import EXPLAIN, LAYOUTS, render_sweep
from tests.support.approved import approved
from tests.support.command import ROOT
from tests.support.recorded import compared, recorded, slower_firmware, three_versions, too_few_runs
from tests.support.runs import collective, manifest, pair, ranks, write_run
from tests.support.steps import WORST as STEP
from tests.support.terminal import shown, told
from tests.support.traces import coll, example_summary, node, rank_trace

Cases = Mapping[str, RenderableType]


def campaign(_: Path) -> Cases:
    lost = {"run": "lossy/01", "jct_ns": None, "problem": "aborted: agent a0 lost at rank 3 \x1b[2J of iteration 4"}
    runs = [{"run": "base/01", "jct_ns": 290_000_000, "problem": None}, lost]
    return {"a run has its time or its problem": campaign_table.render(runs)}


def comparison(_: Path) -> Cases:
    render, trend = comparison_table.render, comparison_table.render_trend
    slower = slower_firmware()
    counted = [
        RunGroup(group.name, [replace(run, counted={"timeouts": count}) for run in group.runs])
        for group, count in zip(slower.groups, (0, 21), strict=True)
    ]
    runs = recorded("paced")
    other = [replace(run, manifest=replace(run.manifest, scaling=Scaling(bytes=0.5))) for run in runs[4:8]]
    forced = compared(RunGroup("a", runs[0:4]), RunGroup("b", other))
    return {
        "a class has its effect, interval and verdict": render(slower),
        "what happened to packets is below the verdicts": render(compared(*counted)),
        "two runs decide nothing": render(too_few_runs()),
        "groups named A and B keep their names": render(compared(RunGroup("B", runs[0:4]), RunGroup("A", runs[4:8]))),
        "groups without a common class": render(replace(slower, pairs=[replace(slower.pairs[0], classes=[])])),
        "a forced comparison says so first": render(forced),
        "and so does its trend": trend(forced),
        "a trend has a ratio for every version": trend(three_versions()),
    }


def lab(_: Path) -> Cases:
    topology = load_topology(ROOT / "topologies" / "leaf-spine-2x2.yaml", ranks=8)
    state = LabState(
        design=make_design(topology, "x1"),
        topology="leaf-spine.yaml",
        digest="",
        name="leaf-spine",
        created="2026-01-01T00:00:00.000+00:00",
        owner=Owner.me(),
        phase=UP,
    )
    up = LabStatus(state, {}, {("leaf0", "u0"): PortLink.DOWN}, processes=0)
    sums = {"tx_bytes": 3 << 20, "rx_bytes": 5, QUEUE_BACKLOG: 1 << 10}
    drops = {"tx_dropped": 1, "rx_dropped": 2, QUEUE_DROPS: 4}
    limited = replace(state, limited="links carry 8 Gbit/s, this host 2 Gbit/s")
    return {
        "counters that cannot be read are dashes": draw(up),
        "one process, and drops are summed": draw(
            replace(up, processes=1, counters={("leaf0", "u0"): {**sums, **drops}})
        ),
        "three processes, and a host that cannot carry it": draw(replace(up, processes=3, state=limited)),
    }


def pairs(_: Path) -> Cases:
    four, nine = ([f"h{n}:eth0" for n in range(count)] for count in (4, 9))

    def table(rates: dict[tuple[str, str], float], ports: list[str] = four, *, is_one_host: bool = False) -> Group:
        found = PairTable(ports, 1 << 20, 3 * len(rates), rates, find_slow(rates), is_one_host)
        return Group(*render_pairs(found))

    well = dict.fromkeys(permutations(four, 2), 9e9)
    slow = well | {pair: 4e9 for pair in well if pair[1] == four[2]} | {(four[0], four[3]): 1e9}
    return {
        "a slow port and a slow pair are named first": table(slow),
        "all is well": table(well),
        "many ports have no matrix": table(dict.fromkeys(permutations(nine, 2), 9e9), nine),
        "one host has no network": table(well, is_one_host=True),
        "nothing was measured": table({}),
    }


def runs(_: Path) -> Cases:
    def stored(name: str, found: Manifest | None = None, status: str = "complete") -> StoredRun:
        return StoredRun(Path("runs", name), found, status, None if found else "manifest.json is missing")

    figures = RunFigures(verdict="TESTER-LIMITED", jct_ns=188_000_000, lost=1204)
    listed = [
        stored("a", manifest(figures=figures, dut={"firmware": "2.1"}, topology={"name": "two-hosts-switch"})),
        stored("b", manifest(figures=RunFigures(lost=0))),
        stored("20261127-071254-transformer-8r", manifest(status=RUNNING), RUNNING),
        stored("x", None, UNREADABLE),
    ]
    removals = [
        Removal(stored("a"), 3 << 20, None),
        Removal(stored("b"), 1 << 20, None),
        Removal(stored("c"), 1 << 20, "it is running"),
    ]
    return {
        "complete, without rules, running, unreadable": render_runs(listed, Path("runs")),
        "unreadable alone": render_runs(listed[-1:], Path("runs")),
        "removals are announced": render_removals(removals, is_done=False),
        "and made": render_removals(removals[:1], is_done=True),
    }


def statistics(folder: Path) -> Cases:
    many = [row for n in range(20) for row in collective([0, 0], [100 + n] * 2, iteration=n)]
    many += [row for n in range(30) for row in pair(0, 10**5, iteration=n, instance=1)]
    early = [*collective([50, 0], [10, 20]), *collective([0, 0], [9, 9], iteration=1)]
    late = []
    for n in range(12):  # each rank is served last in its turn, the last one always posts late
        late += collective([0, 0, 0, 900], [2000 + (r == n % 4) for r in range(4)], iteration=n, name="grad")
    of_many, of_early, of_late = (
        write_run(folder / name, rows) for name, rows in (("many", many), ("early", early), ("late", late))
    )
    stragglers = [lateness(of_late, "post"), lateness(of_late, "done")]
    return {
        "percentiles that the samples allow": render_statistics(distributions(measurements(of_many)), [], incomplete=0),
        "measurements that do not count": render_statistics(distributions(measurements(of_early)), [], incomplete=3),
        "a straggler is named with its delay": render_statistics([], stragglers, incomplete=0),
    }


def rich_summary(folder: Path) -> RunSummary:
    """Of a run with a class of every kind, beside an ideal and traced times, of which little was lost."""
    known = {"ideal_ns": 40_000, "traced_ns": 200_000}
    rows = [
        *collective([0, 7], [100_000, 90_000], size_bytes=1 << 20, algorithm="halving_doubling", **known),
        *collective([0, 0], [90_000, 90_000], instance=1, kind="reduce_scatter_block", size_bytes=1_234_567, **known),
        *pair(0, 50_000, instance=2, size_bytes=64, algorithm="", **known),
        *collective([0, 0], [1_000, 1_000], instance=3, kind="barrier", size_bytes=0),
    ]
    host = HostFacts("a0", ranks=2, peak_rss_bytes=50 << 20, post_lateness_median_ns=31_000, steal_fraction=0.034)
    run = write_run(
        folder,
        rows,
        iterations={0: ranks((0, 200_000), (0, 210_000), compute=120_000, communication=150_000, overlap=90_000)},
        flows=[FlowCounters(0, 1, retransmits=3)],
        roofline_ns=105_000,
        sequential_roofline_ns=210_000,
        hosts=(host,),
        warnings={"dangling dependency": 2},
    )
    return summarise(run)


def summary(folder: Path) -> Cases:
    rich, render = rich_summary(folder / "rich"), summary_table.render
    send, recv = pair(4_000, 9_000, received_post=1_000)
    requests = [send | {"name": "request.3.kv.to.1"}, recv | {"name": "request.3.kv.from.0"}]
    half = replace(rich.totals, domain_bytes=rich.totals.payload_bytes // 2)
    omitted = replace(rich.totals, early=4, negative=5, incomplete=6)
    excluded = Trials(3, 0, 2, (Exclusion(1, "a rank was late"),))
    tester = replace(rich.tester, late_starts=3, rank_rss_bytes=5 << 20, clock_error_ns=1500, cct_until="last_done")
    moved = (Migrations("h0:eth0", "migration to eth1", 3, 1_500_000_000, 2 * 10**9),)
    scaled = (Scaling(0.01, "skip"), Scaling(compute="0.5"), Scaling(element_bytes=2))
    return {
        "a run with everything": render(rich),  # 1 MiB in 99.993 µs; one sample carries no 99th percentile
        "without ideal and traced times": render(summarise(write_run(folder / "plain", collective([0, 0], [10, 10])))),
        "nothing was measured": render(summarise(write_run(folder / "nothing", []))),
        "an older meaning of times, late starts, memory and clocks": render(replace(rich, tester=tester), limit=1),
        "traffic that moved to another port": render(replace(rich, migrations=moved), limit=1),
        "a long path leaves its middle out": render(replace(rich, trace=f"/first/{'x' * 300}/last"), limit=1),
        "aborted": render(replace(rich, status="aborted", reason="interrupted"), limit=1),
        "what was left out is counted": render(replace(rich, totals=omitted, trials=excluded), limit=1),
        "the costliest class alone": render(rich, limit=1),
        "times of requests": render(summarise(write_run(folder / "requests", requests))),
        "payload through domains": render(replace(rich, totals=half), limit=1),
        **{f"scaled: {one}": render(replace(rich, scaling=one), limit=1) for one in scaled},
    }


def sweeps(_: Path) -> Cases:
    known = SweepRow(
        size_bytes=1 << 20,
        algorithm="ring",
        iterations=2,
        time_ns=1_050_000.0,
        min_ns=1_000_000,
        max_ns=1_100_000,
        p50_ns=1_000_000.0,
        p95_ns=None,
        p99_ns=1_090_000.0,
        cv_percent=6.7,
        algbw_bytes_per_s=1e9,
        busbw_bytes_per_s=1.5e9,
        early=0,
    )
    counted = {"packets": 2000, "retransmits": 3, "timeouts": 0}
    played = SweepTable(CommKind.ALL_REDUCE, 4, -1, (known, replace(known, size_bytes=2 << 20)), Trials(3, 1, 2))
    noted = replace(
        played,
        rows=(replace(known, early=2, p99_ns=None),) * 2,
        counters=counted,
        warnings={"the kernel was mean": 2},
        worst_steps=(STEP, replace(STEP, src=3)),
    )

    def swept(table: SweepTable, layout: str) -> Group:
        found = render_sweep(table, layout=layout, headline="PASS: fast", last=["Run folder: runs/x"])
        return Group(*(Text(one, no_wrap=True, overflow="ignore") if isinstance(one, str) else one for one in found))

    found = {"two sizes": played, "notes below the table": noted, "nothing measured": replace(played, rows=())}
    shown = {f"{name}, {layout}": swept(table, layout) for name, table in found.items() for layout in LAYOUTS}
    return {**shown, "explained": Text(EXPLAIN, no_wrap=True)}


def traces(_: Path) -> Cases:
    found = [rank_trace(0, [node(1, deps=[7]), coll(2, "all_reduce", 1 << 20)])]
    named = [rank_trace(0, [coll(1, "barrier", None, "[red]")], attributes={"[bold]x": 1})]
    lenient = build_workload(found, options=TraceOptions(lenient=True))
    return {
        "a dangling dependency, no durations": trace_summary.render(summarise_trace(lenient, found)),
        "messages and compute": trace_summary.render(example_summary()),
        "names are never markup": trace_summary.render(summarise_trace(build_workload(named), named)),
    }


TABLES: tuple[Callable[[Path], Cases], ...] = (*(campaign, comparison, lab, pairs, runs, statistics, summary, traces),)


@pytest.mark.parametrize("make", [*TABLES, sweeps], ids=lambda make: make.__name__)
def test_a_table_says_what_was_approved(make: Callable[[Path], Cases], tmp_path: Path) -> None:
    approved(f"terminal/{make.__name__}", told(make(tmp_path)).replace(str(tmp_path), "FOLDER"))


@pytest.mark.parametrize("make", TABLES, ids=lambda make: make.__name__)
def test_a_table_fits_its_width_and_names_what_it_omits(make: Callable[[Path], Cases], tmp_path: Path) -> None:
    cases = make(tmp_path)
    for width in (60, 70, 80, 100, 140):
        for one in cases.values():
            assert max(map(len, shown(one, width=width).splitlines())) <= width
    approved(f"terminal/{make.__name__}-80", told(cases, width=80))
