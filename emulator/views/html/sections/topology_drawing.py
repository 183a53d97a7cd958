"""A drawing of the topology: hosts at the bottom, switches above them by their distance from the hosts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from emulator.errors import format_ranks
from emulator.results.run_folder.manifest import Manifest
from emulator.units import format_duration
from emulator.views.columns.columns import Header, texts
from emulator.views.columns.figures import NONE, count_of, link_rate_cell
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Drawing, Table

ROW, BOX_WIDTH, BOX_HEIGHT, GAP = 112, 118, 48, 22
ACROSS = 12
"""Most nodes side by side; if there are more, the rest is one box."""
LISTED = 200
_ASSUMED = "network"


@dataclass(frozen=True, slots=True)
class NetworkNodeBox:
    """A node of the network.

    Attributes:
        x, y: centre of the box.
        below: text below the name.
        is_tested: part of the device under test.
        is_rest: stands for all nodes that have no box of their own.
    """

    x: float
    y: float
    width: float
    name: str
    below: str
    is_switch: bool
    is_tested: bool
    is_rest: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A cable between two boxes."""

    x1: float
    y1: float
    x2: float
    y2: float
    about: str


@dataclass(frozen=True, slots=True)
class NetworkDrawing:
    """A drawing and its size, in units of the SVG."""

    width: float
    height: float
    boxes: Sequence[NetworkNodeBox]
    lines: Sequence[Line]
    box_height: int = BOX_HEIGHT


@dataclass(frozen=True, slots=True)
class _Link:
    one: str
    other: str
    about: Mapping[str, Any]

    def words(self) -> str:
        ends = " – ".join(self.about["ends"])  # noqa: RUF001
        return f"{ends}: {', '.join([link_rate_cell(self.about.get('rate_bps')), *self._more()])}"

    def _more(self) -> Iterator[str]:
        if self.about.get("mtu"):
            yield f"MTU {self.about['mtu']} bytes"
        if self.about.get("latency_ns"):
            yield f"latency {format_duration(self.about['latency_ns'])}"


def ranks_of_hosts(manifest: Manifest) -> Mapping[str, list[int]]:
    """Host -> its ranks, for every host of the topology, in order; a storage host has none."""
    hosts = manifest.topology.get("hosts", ())
    names = [str(host.get("name", NONE)) for host in hosts]
    found: dict[str, list[int]] = {name: [] for name in names}
    for rank, index in enumerate(manifest.topology.get("host_index", ())):
        if 0 <= index < len(names) and not hosts[index].get("storage"):
            found[names[index]].append(rank)
    return found


def topology_drawing(facts: PageFacts) -> Drawing:
    """The topology in effect during the run."""
    manifest = facts.manifest
    hosts, links = ranks_of_hosts(manifest), _links(manifest)
    plan = _plan(hosts, links, tested=set(manifest.dut.get("nodes", ())))
    is_drawn = bool(manifest.topology.get("network"))
    summary = f"{manifest.topology.get('name') or NONE}: {count_of(len(hosts), 'host')}"
    rim = " Boxes with a heavy border are the device under test." if manifest.dut.get("nodes") else ""
    return Drawing(
        "topology-drawing",
        "Topology",
        f"{summary}, {facts.summary.ranks:,} ranks. {_why(len(hosts), is_drawn)}{rim}",
        f"Topology {summary}, {len(links)} links.",
        "topology.svg",
        plan,
        _table(links) if is_drawn else None,
    )


def _why(hosts: int, is_drawn: bool) -> str:
    if is_drawn:
        return "Nodes and links as in the topology file."
    if hosts <= 1:
        return "All ranks are on one host; no traffic crosses a device."
    return "The topology file does not describe the network between the hosts."


def _links(manifest: Manifest) -> list[_Link]:
    network = manifest.topology.get("network")
    if network:
        return [_Link(_node(link["ends"][0]), _node(link["ends"][1]), link) for link in network.get("links", ())]
    hosts = [host for host in manifest.topology.get("hosts", ()) if host.get("name")]
    if len(hosts) <= 1:
        return []
    return [_Link(host["name"], _ASSUMED, {**host, "ends": [host["name"], _ASSUMED]}) for host in hosts]


def _node(end: str) -> str:
    return end.rpartition(":")[0]


def _plan(hosts: Mapping[str, list[int]], links: Sequence[_Link], *, tested: set[str]) -> NetworkDrawing:
    rows = _rows(hosts, links)
    whole = (BOX_WIDTH + GAP) * max(3, *(min(len(names), ACROSS) for names in rows))
    boxes: dict[str, NetworkNodeBox] = {}
    rest: dict[str, NetworkNodeBox] = {}
    for number, names in enumerate(rows):
        y = ROW * (len(rows) - 1 - number) + BOX_HEIGHT / 2 + 4
        for name, box in _row(names, hosts, y, tested, whole):
            (rest if box.is_rest else boxes)[name] = box
    lines = [line for link in links if (line := _line(link, boxes))]
    height = ROW * (len(rows) - 1) + BOX_HEIGHT + 8
    return NetworkDrawing(whole, height, [*boxes.values(), *rest.values()], lines)


def _rows(hosts: Mapping[str, list[int]], links: Sequence[_Link]) -> list[list[str]]:
    """Names of nodes by their distance from the hosts, hosts first."""
    neighbours: dict[str, dict[str, None]] = defaultdict(dict)
    for link in links:
        neighbours[link.one][link.other] = neighbours[link.other][link.one] = None
    rows, seen = [list(hosts)], set(hosts)
    while True:
        above = dict.fromkeys(one for name in rows[-1] for one in neighbours[name] if one not in seen)
        if not above:
            return rows
        seen |= above.keys()
        rows.append(list(above))


def _row(
    names: Sequence[str], hosts: Mapping[str, list[int]], y: float, tested: set[str], whole: float
) -> Iterator[tuple[str, NetworkNodeBox]]:
    shown = names if len(names) <= ACROSS else names[: ACROSS - 1]
    places = len(shown) + (len(names) > len(shown))
    width = BOX_WIDTH
    for at, name in enumerate(shown):
        ranks = hosts.get(name)
        is_switch = ranks is None
        switch = "not described" if name == _ASSUMED else "switch"
        below = switch if ranks is None else _ranks_in_words(ranks, width)
        yield (
            name,
            NetworkNodeBox(_middle(at, places, whole), y, width, _short(name, width), below, is_switch, name in tested),
        )
    if places > len(shown):
        more = f"{len(names) - len(shown):,} more"
        yield more, NetworkNodeBox(_middle(len(shown), places, whole), y, width, "…", more, False, False, is_rest=True)


def _middle(at: int, places: int, whole: float) -> float:
    return round(whole * (at + 0.5) / places, 1)


def _ranks_in_words(ranks: Sequence[int], width: float) -> str:
    if not ranks:
        return "no rank"
    is_run = all(b == a + 1 for a, b in pairwise(ranks))
    text = f"rank{'s' * (len(ranks) > 1)} {format_ranks(ranks)}" if is_run or len(ranks) < 4 else f"{len(ranks)} ranks"
    return text if len(text) * 6 <= width else f"{len(ranks)} ranks"


def _short(name: str, width: float) -> str:
    most = max(3, int(width / 7))
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _line(link: _Link, boxes: Mapping[str, NetworkNodeBox]) -> Line | None:
    one, other = boxes.get(link.one), boxes.get(link.other)
    if one is None or other is None:
        return None
    if one.y < other.y:
        one, other = other, one
    rim = BOX_HEIGHT / 2
    is_level = one.y == other.y
    return Line(
        one.x, one.y if is_level else one.y - rim, other.x, other.y if is_level else other.y + rim, link.words()
    )


def _table(links: Sequence[_Link]) -> Table:
    rows = []
    for link in links[:LISTED]:
        one, other = link.about["ends"]
        latency = link.about.get("latency_ns")
        mtu = link.about.get("mtu")
        shown = NONE if latency is None else format_duration(latency)
        rows.append([one, other, link_rate_cell(link.about.get("rate_bps")), NONE if mtu is None else str(mtu), shown])
    columns = [*texts("end", "other end"), *map(Header, ("rate", "MTU, bytes", "latency"))]
    about = "" if len(links) <= LISTED else f"The first {LISTED} of {len(links):,} links; all are in manifest.json."
    return Table("links", "Links", columns, rows, about)
