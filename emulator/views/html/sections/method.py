"""The test description, in the order of BMWG's reporting format: what was tested, how, and how repeatable it is.

Source: draft-calabria-bmwg-ai-fabric-training-bench-04, Reporting Format and Result Comparability.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emulator.results.run_folder.manifest import LAST_DONE, HostFacts, Manifest
from emulator.results.statistics.summary import TesterFacts
from emulator.units import format_duration
from emulator.views.columns.columns import Header, texts
from emulator.views.columns.figures import (
    CCT_UNTIL_DONE,
    NONE,
    describe_scaling,
    describe_warning,
    duration_cell,
    link_rate_cell,
    number_cell,
    percent_cell,
    size_cell,
)
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Block, Facts, PageSection, Table, Text
from emulator.views.html.sections.comparability import comparability
from emulator.views.html.sections.topology_drawing import topology_drawing

DRAFT = "draft-calabria-bmwg-ai-fabric-training-bench-04"
_ABOUT = (
    f"Follows the reporting format of {DRAFT} (Internet-Draft of 12 August 2026, work in progress) as far as it "
    "applies to a software tester. The draft defines metrics and reporting but no acceptance criteria; this report has "
    "none either."
)
FEW_HOSTS = 4
"""If there are more hosts, their table is folded."""
_DUT = ("name", "kind", "vendor", "model", "asic", "os", "firmware")


def description(facts: PageFacts) -> PageSection:
    """The section with everything needed to judge the results and to repeat the test."""
    blocks: list[Block] = [
        _dut(facts.manifest),
        _measurement(facts),
        topology_drawing(facts),
        _configuration(facts),
        _trials(facts),
        _hosts(facts.manifest.hosts),
        _parameters(facts.manifest),
        comparability(facts),
    ]
    if not facts.is_running:  # bootstrap intervals take too long for a live page
        blocks.insert(-1, _repeatability(facts))
    blocks.insert(2, _yardsticks(facts))
    return PageSection("description", "Test description", blocks, _ABOUT)


def _dut(manifest: Manifest) -> Block:
    if not manifest.dut:
        text = "The topology names no device under test. The results describe everything between the endpoints."
        return Facts("dut", "Device under test", [("name", NONE)], text)
    dut = manifest.dut
    known = [(name, _words(dut.get(name))) for name in _DUT if name in dut]
    more = [(name, _words(value)) for name, value in dut.items() if name not in _DUT]
    return Facts("dut", "Device under test", [*known, *more])


def _words(value: Any) -> str:
    """Any value of a manifest on one line."""
    if value is None or value == "":
        return NONE
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_words(one)}" for name, one in value.items()) or NONE
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_words, value)) or NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _configuration(facts: PageFacts) -> Facts:
    manifest = facts.manifest
    trace, digest = manifest.trace, manifest.topology.get("digest")
    return Facts(
        "configuration",
        "Configuration",
        [
            ("Command", shlex.join(manifest.command_line)),
            ("Run", f"{manifest.run_id}, {manifest.created}"),
            ("Trace", f"{trace.path}, {trace.nodes:,} nodes, {trace.communication_nodes:,} of them communication"),
            ("SHA-256 of the trace", trace.digest),
            (
                "Topology",
                f"{manifest.topology.get('name') or NONE}, from {manifest.topology.get('source') or 'defaults'}",
            ),
            ("SHA-256 of the topology", str(digest) if digest else NONE),
            ("Scaling", describe_scaling(manifest.scaling) or "none: sizes and compute times as in the trace"),
            ("Seed", str(manifest.seed)),
            ("Versions", ", ".join(f"{name} {version}" for name, version in manifest.versions.items())),
        ],
    )


def _measurement(facts: PageFacts) -> Facts:
    tester, clock = facts.summary.tester, facts.manifest.clock
    late = tester.post_lateness_median_ns
    error = format_duration(clock.error_ns) if clock.error_ns else "none: all agents share one clock"
    memory = size_cell(tester.peak_rss_bytes)
    return Facts(
        "measurement",
        "Measurement",
        [
            ("Observation point", _observation(tester)),
            ("Clock", clock.source),
            ("Largest clock offset corrected", format_duration(clock.offset_ns) if clock.offset_ns else "none"),
            ("Clock error, at most", error),
            ("Delay of posts", f"{duration_cell(late)} (median of the agent with the largest delay)"),
            ("Memory of an agent", f"{memory} (largest agent)"),
            (
                "Steal time",
                f"{percent_cell(tester.steal_fraction)} of CPU time used by other virtual machines (largest)",
            ),
            *_domains(facts.manifest),
            ("Accuracy class", "software traffic generator: does not meet BMWG's timestamp accuracy class of 100 ns"),
        ],
    )


def _domains(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Scale-up domains, if hosts have some: each kind once."""
    found = (host.get("domain") for host in manifest.topology.get("hosts", ()))
    kinds = {(one["rate_bps"], one["latency_ns"]) for one in found if one}
    if kinds:
        words = (f"{link_rate_cell(rate)} a rank and direction, {format_duration(ns)}" for rate, ns in sorted(kinds))
        yield (
            "Scale-up domains",
            f"{'; '.join(words)}. Computed by agents; their timers report arrivals late, never early",
        )


def _yardsticks(facts: PageFacts) -> Block:
    """What else times can be compared with, besides ideal %."""
    one = facts.summary.iteration
    rows = []
    if one is not None and one.roofline_ratio is not None:
        rows = [
            ["iteration (JCT)", "JCT / roofline: all collectives at their ideal", number_cell(one.roofline_ratio)],
            [
                "iteration (JCT)",
                "JCT / sequential roofline of BMWG: compute + bytes / rate",
                number_cell(one.sequential_roofline_ratio),
            ],
        ]
    rows += [
        [str(row.key), "tester %: time of the calibrated tester alone / cct", number_cell(row.tester_percent)]
        for row in facts.summary.classes
        if row.tester_percent is not None
    ]
    if not rows:
        text = (
            "The rates of the ports are unknown and the tester is not calibrated: there is no reference for comparison."
        )
        return Text("yardsticks", text, "note")
    titles = [*texts("of", "yardstick"), Header("value")]
    about = "Other references besides ideal %, and the share of the tester in each time."
    return Table("yardsticks", "Other yardsticks", titles, rows, about, is_folded=True)


def _observation(tester: TesterFacts) -> str:
    older = f"; {CCT_UNTIL_DONE}" if tester.cct_until == LAST_DONE else ""
    if tester.read_delay_median_ns is None:
        return f"{tester.observation_point}: software timestamps at the sockets{older}"
    delays = f"agents read {duration_cell(tester.read_delay_median_ns)} later (median)"
    if tester.read_delay_p99_ns is not None:
        delays += f", {duration_cell(tester.read_delay_p99_ns)} (p99)"
    return f"{tester.observation_point}; {delays}{older}"


def _hosts(hosts: Sequence[HostFacts]) -> Block:
    if not hosts:
        return Text("hosts", "The hosts of the agents are recorded when the run ends.", "note")
    rows = [
        [
            host.agent,
            str(host.ranks),
            ", ".join(f"{name} {host.facts[name]}" for name in sorted(host.facts) if name != "pid") or NONE,
            "; ".join(map(_nic, host.nics)) or NONE,
            duration_cell(host.post_lateness_median_ns),
            size_cell(host.peak_rss_bytes),
            percent_cell(host.steal_fraction),
        ]
        for host in hosts
    ]
    columns = [*texts("agent"), Header("ranks"), *texts("host", "interfaces")]
    columns += map(Header, ("delay of posts, median", "memory", "steal"))
    return Table("hosts", "Hosts of the agents", columns, rows, is_folded=len(rows) > FEW_HOSTS)


def _nic(nic: Mapping[str, Any]) -> str:
    driver, firmware, mtu = (_words(nic.get(name)) for name in ("driver", "firmware", "mtu"))
    speed = link_rate_cell(nic.get("speed_bps"))
    return f"{nic.get('interface', NONE)}: driver {driver}, firmware {firmware}, {speed}, MTU {mtu}"


def _parameters(manifest: Manifest) -> Table:
    rows = [[name, _words(one.value), one.unit or ""] for name, one in manifest.parameters.items()]
    titles = [*texts("parameter"), Header("value"), *texts("unit")]
    return Table("parameters", "Parameters in effect", titles, rows, is_folded=True)


def _trials(facts: PageFacts) -> Facts:
    trials, totals = facts.summary.trials, facts.summary.totals
    lines = [
        ("Iterations attempted", str(trials.attempted)),
        ("warm-up", str(trials.warmup)),
        ("included", str(trials.included)),
        ("excluded", str(len(trials.excluded))),
        *((f"iteration {one.iteration}", one.why) for one in trials.excluded),
        ("Samples", f"{totals.samples:,} (communication nodes × ranks × iterations)"),  # noqa: RUF001
        ("Incomplete", f"{totals.incomplete:,} measurements without the time of every member: not counted"),
        ("Below zero", f"{totals.negative:,} measurements with a negative time: not counted"),
        ("Early payload", f"{totals.early:,} samples whose payload arrived before the rank had posted: no bandwidth"),
    ]
    return Facts("trials", "Trials and anomalies", [*lines, *_anomalies(facts)])


def _anomalies(facts: PageFacts) -> Iterator[tuple[str, str]]:
    if facts.manifest.reason:
        yield "Ended", facts.manifest.reason
    for what, count in facts.summary.warnings.items():
        yield "Warning", describe_warning(what, count)


def _repeatability(facts: PageFacts) -> Table:
    """Coefficient of variation within the run: of cct for every class, and of JCT."""
    rows = []
    one = facts.summary.iteration
    if one is not None:
        rows.append(["iteration (JCT)", "JCT", str(one.count), str(one.count), _percent(one.jct_variation)])
    for row in facts.summary.classes:
        found = facts.distribution(row)
        rows.append([str(row.key), "cct", str(found.samples), str(found.iterations), _percent(found.variation)])
    titles = [*texts("class", "metric"), *map(Header, ("n", "iterations", "CV %"))]
    about = (
        "Variation between the measurements of this run. To measure the variation between runs, repeat the run and use "
        "charkha compare."
    )
    return Table("repeatability", "Repeatability within the run", titles, rows, about, is_folded=True)


def _percent(fraction: float | None) -> str:
    return NONE if fraction is None else number_cell(100 * fraction)
