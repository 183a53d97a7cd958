"""The flows with the most trouble, in which iterations it came, and recorded steps beside ideal ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from emulator.control.observations import EVENTS
from emulator.results.statistics.samples.measured_rows import UNKNOWN, to_ints
from emulator.results.statistics.samples.transfers import RecordedInstance, Steps
from emulator.results.statistics.summary import WORST_FLOWS
from emulator.results.statistics.worst.worst_steps import MOST_LISTED, Waited, WorstStep
from emulator.units import format_duration
from emulator.views.columns.columns import Header
from emulator.views.columns.figures import NONE, count_of
from emulator.views.columns.worst_columns import WORST_FLOW_COLUMNS, WORST_STEP_COLUMNS
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Block, Chart, PageSection, Table, Text, table_of
from emulator.views.html.page.pictures import Picture, Rows
from emulator.views.html.page.reduction import spread_evenly
from emulator.views.network_text import describe_loss_focus

ROWS = 100
_ABOUT_FLOWS = (
    f"The flows with the most retransmissions, at most {WORST_FLOWS}. Counters cover the whole run, including warm-up."
)


def worst(facts: PageFacts) -> Iterator[PageSection]:
    """The section, if any flow had events."""
    if facts.summary.worst_flows:
        blocks = [table_of("worst-flows", "Worst flows", list(WORST_FLOW_COLUMNS), facts.summary.worst_flows)]
        if facts.flow_events.num_rows:
            blocks.append(_by_iteration(facts))
        about = " ".join((_ABOUT_FLOWS, *(f"{describe_loss_focus(one)}." for one in facts.summary.loss_foci)))
        yield PageSection("worst", "Worst flows", blocks, about)


def _by_iteration(facts: PageFacts) -> Table:
    """Every flow and iteration with events, those with the most events first, without counters that are all 0."""
    events = facts.flow_events
    counts = {name: to_ints(events[name], null=0) for name in EVENTS}
    shown = [name for name in EVENTS if counts[name].any()]
    order = np.lexsort((to_ints(events["iteration"]), -np.sum(list(counts.values()), axis=0)))[:ROWS]
    identity = {name: events[name].to_pylist() for name in ("iteration", "src", "dst", "qpn")}
    rows = [
        [
            *(NONE if one[at] is None else str(one[at]) for one in identity.values()),
            *(f"{counts[n][at]:,}" for n in shown),
        ]
        for at in order.tolist()
    ]
    headers = ["iteration", "from rank", "to rank", "QP", *(name.replace("_", " ") for name in shown)]
    hidden = events.num_rows - len(rows)
    more = f" {count_of(hidden, 'more row is', 'more rows are')} in flow_events.parquet." if hidden else ""
    about = f"A row per iteration in which a flow had events; those with the most first. Warm-up is negative.{more}"
    return Table("flow-events", "Events by iteration", [Header(one) for one in headers], rows, about, is_folded=True)


INSTANCES, LANES, LINES = 12, 32, 600
"""Collectives to choose from, ranks of one, and transfers of one."""
VISIBLE = 0.1
"""A wait for the receiver is drawn if it is a larger part of the transfer's time."""
_PAYLOAD, _LATE, _IDEAL = "payload", "late", "ideal payload"
_CREDIT, _ACK = "wait for the receiver", "wait for the ACK"
_ABOUT_STEPS = (
    "Transfers of the collectives selected by --record-steps. A transfer can start when its step has started and all "
    "ranks have posted; its time ends when the last byte arrives."
)
_BESIDE = (
    "Below: the same collective on an ideal network: all ranks post at once, transfers share the links fairly, "
    "nothing else takes time."
)
_ALONE = "There is no ideal for comparison: a port has no rate, or nothing left its host."
_Place = tuple[int, int, int, int]
"""(source, destination, lane, step)"""


def recorded_steps(facts: PageFacts) -> Iterator[PageSection]:
    """The section, if steps were recorded."""
    if facts.steps is None or not facts.steps.instances:
        return
    worst = facts.summary.worst_steps
    about = f"The {MOST_LISTED} that cost the most. Events are those between the two ranks in the iteration."
    table: Block = (
        table_of("worst-steps", "Worst steps", WORST_STEP_COLUMNS, worst, about)
        if worst
        else Text("no-worst-steps", "No transfer took longer than the others of its collective.")
    )
    yield PageSection("steps", "Steps", [_space_time(facts.steps, worst), table], _ABOUT_STEPS)


def _space_time(steps: Steps, worst: Sequence[WorstStep]) -> Chart:
    shown = _interesting(steps.instances, worst)
    lines, lanes = Rows(), Rows()
    for one in shown:
        _draw(lines, lanes, steps, one, worst)
    has_ideal = bool((steps.columns["ideal_arrival_ns"] != UNKNOWN).any())
    is_large = any(len(one.rows) > LINES or len(one.ranks) > LANES for one in shown)
    part = f" At most {LINES:,} transfers and {LANES} ranks are drawn, including all late ones." if is_large else ""
    hidden = len(steps.instances) - len(shown)
    more = f" {len(shown)} of {len(steps.instances):,} recorded collectives." if hidden else ""
    return Chart(
        "space-time",
        "A collective in space and time",
        f"Each line is a transfer, from the rank that sends it, when it is handed to the transport, to the rank that "
        f"receives it, when its last byte arrives. Late: in the table of the worst steps. "
        f"{_BESIDE if has_ideal else _ALONE}{part}{more}",
        "Ranks are lanes; a transfer is a line from its sender to its receiver over time. The table of the worst steps "
        "has the numbers.",
        Picture(
            "space_time",
            {"lanes": lanes.columns, "lines": lines.columns},
            "collective",
            [(_identity(one), f"{one.key}, iteration {one.iteration}: {format_duration(one.cct_ns)}") for one in shown],
        ),
        choice_title="Collective",
        is_wide=True,
    )


def _interesting(instances: Sequence[RecordedInstance], worst: Sequence[WorstStep]) -> list[RecordedInstance]:
    """Those of the worst steps first, then the slowest."""
    first = {(one.iteration, one.instance): at for at, one in reversed(list(enumerate(worst)))}
    ordered = sorted(
        instances, key=lambda one: (first.get((one.iteration, one.instance), len(worst)), -one.cct_ns, one.iteration)
    )
    return ordered[:INSTANCES]


def _identity(one: RecordedInstance) -> str:
    return f"{one.iteration}/{one.instance}"


def _draw(lines: Rows, lanes: Rows, steps: Steps, one: RecordedInstance, worst: Sequence[WorstStep]) -> None:
    late: defaultdict[_Place, set[Waited]] = defaultdict(set)
    for each in worst:
        if (each.iteration, each.instance) == (one.iteration, one.instance):
            late[each.src, each.dst, each.lane, each.step].add(each.waited_for)
    values = _values(steps, one)
    drawn = _fitting(values, one, late)
    ranks = sorted({rank for value in drawn for rank in (value["src"], value["dst"])})
    has_ideal = any(value["ideal_arrival_ns"] != UNKNOWN for value in drawn)
    for name in ("rank", "ideal") if has_ideal else ("rank",):
        for rank in ranks:
            lanes.add(collective=_identity(one), lane=f"{name} {rank}")
        if name == "rank" and has_ideal:
            lanes.add(collective=_identity(one), lane="")  # a gap
    for value in drawn:
        src, dst = f"rank {value['src']}", f"rank {value['dst']}"
        for part, begin_ns, end_ns in _parts(value, late.get(_place(value), ())):
            ends = {_CREDIT: (src, src), _ACK: (dst, src)}.get(part, (src, dst))
            _add(lines, one, value, part=part, times=(begin_ns - one.zero_ns, end_ns - one.zero_ns), ends=ends)
        if value["ideal_arrival_ns"] != UNKNOWN:
            times = value["ideal_post_ns"], value["ideal_arrival_ns"]
            _add(lines, one, value, part=_IDEAL, times=times, ends=(f"ideal {value['src']}", f"ideal {value['dst']}"))


def _values(steps: Steps, one: RecordedInstance) -> list[dict[str, int]]:
    """The steps of an instance, with `ready_ns`."""
    columns = {
        name: column[one.rows].tolist() for name, column in (*steps.columns.items(), ("ready_ns", steps.ready_ns))
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _place(value: Mapping[str, int]) -> _Place:
    return value["src"], value["dst"], value["lane"], value["step"]


def _parts(value: Mapping[str, int], late: Collection[Waited]) -> Iterator[tuple[str, int, int]]:
    """(part, begin, end) of what is drawn of a measured transfer."""
    if UNKNOWN in (value["post_ns"], value["arrival_ns"], value["start_ns"]):
        return
    ready_ns, arrival_ns = value["ready_ns"], value["arrival_ns"]
    post_ns = min(max(value["post_ns"], ready_ns), arrival_ns)
    if post_ns - ready_ns > (arrival_ns - ready_ns) * VISIBLE:
        yield _CREDIT, ready_ns, post_ns
    yield (_LATE if "payload" in late else _PAYLOAD), post_ns, arrival_ns
    if "ack" in late:
        yield _ACK, arrival_ns, value["acknowledged_ns"]


def _add(
    lines: Rows,
    one: RecordedInstance,
    value: Mapping[str, int],
    *,
    part: str,
    times: tuple[int, int],
    ends: tuple[str, str],
) -> None:
    lines.add(
        collective=_identity(one),
        lane=ends[0],
        to_lane=ends[1],
        begin_ns=times[0],
        end_ns=times[1],
        part=part,
        src=value["src"],
        dst=value["dst"],
        step=f"{value['lane']}.{value['step']}",
        size_bytes=value["size_bytes"],
    )


def _fitting(values: Sequence[dict[str, int]], one: RecordedInstance, late: Collection[_Place]) -> list[dict[str, int]]:
    """Late ones, and as many as fit between the ranks of these and others spread evenly."""
    named = {rank for src, dst, _, _ in late for rank in (src, dst)}
    others = [rank for rank in one.ranks if rank not in named]
    ranks = {*named, *spread_evenly(others, max(0, LANES - len(named)))}
    within = [value for value in values if value["src"] in ranks and value["dst"] in ranks]
    kept = set(spread_evenly(range(len(within)), LINES))
    return [value for at, value in enumerate(within) if at in kept or _place(value) in late]
