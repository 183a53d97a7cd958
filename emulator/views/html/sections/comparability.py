"""What must be equal in two runs before their results are compared.

`charkha compare` enforces it (emulator.results.comparison.comparability); this section shows it for one run.

Source: draft-calabria-bmwg-ai-fabric-training-bench-04, Comparability Set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction

from emulator.control.parameter import Parameter
from emulator.results.comparison.comparability import compared_parameters
from emulator.results.run_folder.manifest import Manifest
from emulator.results.statistics.method.nccl_conventions import busbw_factor
from emulator.results.statistics.samples.table_columns import to_ints
from emulator.results.statistics.traffic.network_traffic import crosses_network
from emulator.trace.meaning.collective_names import SEND_RECV
from emulator.trace.meaning.model import CommKind
from emulator.units import format_size
from emulator.views.columns.columns import texts
from emulator.views.columns.figures import NONE, count_of, describe_scaling, link_rate_cell
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Table
from emulator.views.html.sections.topology_drawing import ranks_of_hosts

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
    yield "Transport", _parameters(manifest, *_TRANSPORT)
    yield "Load balancing", _balancing(manifest)
    yield "Trace (SHA-256)", manifest.trace.digest[:16]
    yield "Scaling", describe_scaling(manifest.scaling) or "none"
    yield "Algorithms", ", ".join(sorted({row.algorithm for row in facts.summary.classes if row.algorithm})) or NONE
    yield "Observation point", manifest.observation_point
    yield "Charkha's version", manifest.versions.get("charkha", NONE)
    others = (name for name in compared_parameters(manifest) if name not in (*_TRANSPORT, *_BALANCING))
    yield "Other parameters", _parameters(manifest, *others) or NONE


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


def _parameters(manifest: Manifest, *names: str) -> str:
    known = [(name, manifest.parameters[name]) for name in names if name in manifest.parameters]
    return ", ".join(f"{name.replace('_', ' ')} {_value(one)}" for name, one in known)


def _value(parameter: Parameter) -> str:
    if isinstance(parameter.value, bool):
        return "on" if parameter.value else "off"
    if parameter.unit == "bytes" and isinstance(parameter.value, int):
        return format_size(parameter.value)
    return f"{parameter.value} {parameter.unit}".strip()


def _balancing(manifest: Manifest) -> str:
    queue_pairs = _parameters(manifest, *_BALANCING)
    network = manifest.topology.get("network")
    routes = (
        "" if not network else f"ECMP seed {network.get('ecmp_seed')}, {len(network.get('routes', ()))} explicit routes"
    )
    return "; ".join(filter(None, (queue_pairs, routes))) or NONE
