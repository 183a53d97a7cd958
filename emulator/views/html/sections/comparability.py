"""What must match before two results are compared.

Source: draft-calabria-bmwg-ai-fabric-training-bench-04, Comparability Set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np

from emulator.control.parameter import Parameter
from emulator.run_folder.manifest import Manifest
from emulator.statistics.collectives import busbw_factor, to_ints
from emulator.statistics.summary import SEND_RECV
from emulator.trace.model import CommKind
from emulator.units import format_size
from emulator.views.columns import Header
from emulator.views.figures import NONE, describe_scaling, link_rate_cell
from emulator.views.html.facts import RunFacts
from emulator.views.html.page.document import Table
from emulator.views.html.sections.topology_drawing import ranks_of_hosts

_BALANCING = ("roce.qps", "roce.ecmp", "roce.entropy")
_KINDS = {kind.label: kind for kind in CommKind} | {SEND_RECV: CommKind.SEND}


def comparability(facts: RunFacts) -> Table:
    """The comparability set of this run."""
    columns = [Header(title, is_number=False) for title in ("parameter", "this run")]
    about = (
        "Two results are compared only where every line is equal; else they stand side by side with the difference "
        "stated. The lines after load balancing are Charkha's own. charkha compare checks it."
    )
    return Table("comparability", "Comparability set", columns, [list(line) for line in _lines(facts)], about)


def _lines(facts: RunFacts) -> Iterator[tuple[str, str]]:
    manifest = facts.manifest
    yield "Participating ranks N", str(manifest.trace.ranks)
    yield "Ranks per host, placement", _placement(manifest)
    yield "Line rate of a rank's port", _rates(manifest)
    yield "Leaf oversubscription", oversubscription(manifest)
    yield "Collectives, sizes, factors", _workload(facts)
    yield "Payload that left its host (S_fabric)", _fabric_visible(facts)
    yield "Transport", _parameters(manifest, "transport", "message_bytes", "credits")
    yield "Load balancing", _balancing(manifest)
    yield "Trace (SHA-256)", manifest.trace.digest[:16]
    yield "Scaling", describe_scaling(manifest.scaling) or "none"
    yield "Algorithms", ", ".join(sorted({row.algorithm for row in facts.summary.classes if row.algorithm})) or NONE
    yield "Observation point", manifest.observation_point


def _placement(manifest: Manifest) -> str:
    counts = Counter(len(ranks) for ranks in ranks_of_hosts(manifest).values() if ranks)
    if not counts:
        return NONE
    return ", ".join(f"{hosts} host{'s' * (hosts != 1)} with {ranks}" for ranks, hosts in sorted(counts.items()))


def _rates(manifest: Manifest) -> str:
    """Of the ports that hosts with ranks have."""
    used = {name for name, ranks in ranks_of_hosts(manifest).items() if ranks}
    rates = {
        link_rate_cell(port.get("rate_bps"))
        for host in manifest.topology.get("hosts", ())
        if host.get("name") in used
        for port in host.get("interfaces") or [host]
    }
    return ", ".join(sorted(rates)) or NONE


def oversubscription(manifest: Manifest) -> str:
    """Rates of links to hosts over those of links to switches, per leaf; a dash where a rate is missing."""
    network = manifest.topology.get("network")
    if not network:
        return NONE
    hosts = {host["name"] for host in manifest.topology["hosts"]}
    down, up = Counter[str](), Counter[str]()
    for link in network["links"]:
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
        return "none: one switch, no uplinks" if down else NONE
    ratios = sorted({Fraction(down[leaf], up[leaf]) for leaf in leaves})
    return ", ".join(f"{float(ratio):.3g}:1" for ratio in ratios)


def _workload(facts: RunFacts) -> str:
    rows = facts.summary.classes
    said = []
    for row in rows[:6]:
        factor = busbw_factor(_KINDS[row.collective], members=row.members)
        shown = NONE if factor is None else f"{factor:.3g}"
        said.append(f"{row.collective} {format_size(row.size_bytes)} × {row.members} ranks, factor {shown}")  # noqa: RUF001
    more = f"; {len(rows) - 6} more classes: see the table" if len(rows) > 6 else ""
    return "; ".join(said) + more or NONE


def _fabric_visible(facts: RunFacts) -> str:
    """Payload of flows between hosts; retransmissions are in none of it."""
    if not facts.flows.num_rows:
        return NONE
    host = np.array(facts.manifest.topology.get("host_index", ()), np.int64)
    src, dst, size = (to_ints(facts.flows[name]) for name in ("src", "dst", "bytes"))
    if max(src.max(), dst.max()) >= len(host):
        return NONE
    whole, crossed = int(size.sum()), int(size[host[src] != host[dst]].sum())
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
    said = _parameters(manifest, *_BALANCING)
    network = manifest.topology.get("network")
    routes = (
        "" if not network else f"ECMP seed {network.get('ecmp_seed')}, {len(network.get('routes', ()))} explicit routes"
    )
    return "; ".join(filter(None, (said, routes))) or NONE
