"""The test description, in the order of BMWG's reporting format: what was tested, how, and how repeatable it is.

The last section has what must be equal in two runs before their results are compared; `charkha compare` enforces it
(emulator.results.comparison.comparability).

Source: draft-calabria-bmwg-ai-fabric-training-bench-04, Reporting Format, Comparability Set and Result Comparability.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from emulator.control.parameter import Parameter
from emulator.results.comparison.comparability import compared_parameters
from emulator.results.run_folder.manifest import LAST_DONE, HostFacts, Manifest
from emulator.results.statistics.method.nccl_conventions import busbw_factor
from emulator.results.statistics.samples.measured_rows import to_ints
from emulator.results.statistics.summary import TesterFacts
from emulator.results.statistics.traffic.network_traffic import crosses_network
from emulator.trace.meaning.model import CommKind
from emulator.trace.meaning.names import SEND_RECV
from emulator.units import format_duration, format_size
from emulator.views.columns.columns import Header, texts
from emulator.views.columns.figures import (
    CCT_UNTIL_DONE,
    NONE,
    count_of,
    describe_scaling,
    describe_warning,
    duration_cell,
    link_rate_cell,
    number_cell,
    percent_cell,
    size_cell,
)
from emulator.views.columns.uncertainty_columns import UNCERTAINTY_COLUMNS, sources, stated_figures
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Block, Facts, PageSection, Table, Text, table_of
from emulator.views.html.sections.topology_drawing import ranks_of_hosts, topology_drawing

DRAFT = "draft-calabria-bmwg-ai-fabric-training-bench-04"
_ABOUT = (
    f"Follows the reporting format of {DRAFT} (Internet-Draft of 12 August 2026, work in progress) as far as it "
    "applies to a software tester. The draft defines metrics and reporting but no acceptance criteria; this report has "
    "none either."
)
_UNCERTAINTY = (
    "Value ± U contains the true value in about 95 % of cases (GUM, coverage factor 2). U is about this run: repeat it "
    "to see what differs between runs. What the tester itself adds has a sign and stands beside U."
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
    if stated := list(stated_figures(facts.summary)):
        blocks.insert(
            -1,
            table_of(
                "uncertainty",
                "Uncertainty",
                UNCERTAINTY_COLUMNS,
                stated,
                f"{_UNCERTAINTY} {sources(stated)}".strip(),
                is_folded=True,
            ),
        )
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
        [str(row.key), "tester %: share of the tester in cct", number_cell(row.tester_percent)]
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


_TRANSPORT = ("transport", "message_bytes", "credits")
_BALANCING = ("roce.qps", "roce.source_port")
_SHOWN_CLASSES = 6
_KINDS = {kind.label: kind for kind in CommKind} | {SEND_RECV: CommKind.SEND}


def comparability(facts: PageFacts) -> Table:
    """The comparability set of a run."""
    about = (
        "Two results are comparable only if every line is equal; charkha compare checks this. Otherwise report them "
        "side by side and state the difference. The lines after load balancing are specific to Charkha."
    )
    return Table("comparability", "Comparability set", texts("parameter", "this run"), list(_lines(facts)), about)


def _lines(facts: PageFacts) -> Iterator[tuple[str, str]]:
    manifest = facts.manifest
    yield "Participating ranks N", str(manifest.trace.ranks)
    yield "Ranks per host, placement", _placement(manifest)
    yield "Line rate of a rank's port", _rates(manifest)
    yield "Leaf oversubscription", oversubscription(manifest)
    yield "Collectives, sizes, factors", _workload(facts)
    yield "Payload that left its host (S_fabric)", _fabric_visible(facts)
    yield "Transport", _compared_parameters(manifest, *_TRANSPORT)
    yield "Load balancing", _balancing(manifest)
    yield "Trace (SHA-256)", manifest.trace.digest[:16]
    yield "Scaling", describe_scaling(manifest.scaling) or "none"
    yield "Algorithms", ", ".join(sorted({row.algorithm for row in facts.summary.classes if row.algorithm})) or NONE
    yield "Observation point", manifest.observation_point
    yield "Charkha's version", manifest.versions.get("charkha", NONE)
    others = (name for name in compared_parameters(manifest) if name not in (*_TRANSPORT, *_BALANCING))
    yield "Other parameters", _compared_parameters(manifest, *others) or NONE


def _placement(manifest: Manifest) -> str:
    counts = Counter(len(ranks) for ranks in ranks_of_hosts(manifest).values() if ranks)
    if not counts:
        return NONE
    return ", ".join(f"{count_of(hosts, 'host')} with {ranks}" for ranks, hosts in sorted(counts.items()))


def _rates(manifest: Manifest) -> str:
    """Rates of the ports of hosts with ranks."""
    used = {name for name, ranks in ranks_of_hosts(manifest).items() if ranks}
    rates = {
        link_rate_cell(port.get("rate_bps"))
        for host in manifest.topology.get("hosts", ())
        if host.get("name") in used
        for port in host.get("interfaces") or [host]
    }
    return ", ".join(sorted(rates)) or NONE


def oversubscription(manifest: Manifest) -> str:
    """Rates of links to hosts / rates of links to switches, per leaf; a dash if a rate is unknown."""
    network = manifest.topology.get("network")
    if not network:
        return NONE
    hosts = {host.get("name") for host in manifest.topology.get("hosts", ())}
    down, up = Counter[str](), Counter[str]()
    for link in network.get("links", ()):
        nodes = [end.rpartition(":")[0] for end in link["ends"]]
        for here, there in (nodes, nodes[::-1]):
            if here not in hosts:
                if link.get("rate_bps") is None:
                    return NONE
                (down if there in hosts else up)[here] += link["rate_bps"]
    return _ratios(down, up)


def _ratios(down: Mapping[str, int], up: Mapping[str, int]) -> str:
    leaves = [leaf for leaf in down if up.get(leaf)]
    if not leaves:
        return "none: a single switch without uplinks" if down else NONE
    ratios = sorted({Fraction(down[leaf], up[leaf]) for leaf in leaves})
    return ", ".join(f"{float(ratio):.3g}:1" for ratio in ratios)


def _workload(facts: PageFacts) -> str:
    rows = facts.summary.classes
    parts = []
    for row in rows[:_SHOWN_CLASSES]:
        factor = busbw_factor(_KINDS[row.collective], members=row.members)
        shown = NONE if factor is None else f"{factor:.3g}"
        parts.append(f"{row.collective} {format_size(row.size_bytes)} × {row.members} ranks, factor {shown}")  # noqa: RUF001
    hidden = len(rows) - len(parts)
    more = f"; {count_of(hidden, 'more class', 'more classes')}: see the table of classes" if hidden else ""
    return "; ".join(parts) + more or NONE


def _fabric_visible(facts: PageFacts) -> str:
    """Payload of flows between hosts, retransmissions not included."""
    if not facts.flows.num_rows:
        return NONE
    src, dst, size = (to_ints(facts.flows[name]) for name in ("src", "dst", "bytes"))
    between = crosses_network(src, dst, facts.manifest)
    if between is None:
        return NONE
    whole, crossed = int(size.sum()), int(size[between].sum())
    share = f", {100 * crossed / whole:.0f} % of all payload" if whole else ""
    return f"{format_size(crossed)} in the whole run{share}"


def _compared_parameters(manifest: Manifest, *names: str) -> str:
    known = [(name, manifest.parameters[name]) for name in names if name in manifest.parameters]
    return ", ".join(f"{name.replace('_', ' ')} {_value(one)}" for name, one in known)


def _value(parameter: Parameter) -> str:
    if isinstance(parameter.value, bool):
        return "on" if parameter.value else "off"
    if parameter.unit == "bytes" and isinstance(parameter.value, int):
        return format_size(parameter.value)
    return f"{parameter.value} {parameter.unit}".strip()


def _balancing(manifest: Manifest) -> str:
    queue_pairs = _compared_parameters(manifest, *_BALANCING)
    network = manifest.topology.get("network")
    routes = (
        "" if not network else f"ECMP seed {network.get('ecmp_seed')}, {len(network.get('routes', ()))} explicit routes"
    )
    return "; ".join(filter(None, (queue_pairs, routes))) or NONE
