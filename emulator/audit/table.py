"""An audit's report as a table for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emulator.audit.report import AuditReport, FlowReport, opcode_name
from emulator.audit.responses import Answers
from emulator.audit.rules import Violation
from emulator.units import format_duration, format_size

SHOWN_FLOWS = 40
SHOWN_VIOLATIONS = 20
_NOTHING = "–"  # noqa: RUF001 (an en dash is what the tables show where nothing is known)
_GIGA = 1e9


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cell: Callable[[FlowReport], str]


def render(report: AuditReport) -> RenderableType:
    """The report for a console."""
    return Group(*_parts(report))


def _parts(report: AuditReport) -> Iterator[RenderableType]:
    yield _headline(report)
    yield Text()
    yield _opcode_table(report)
    yield Text()
    shown = sorted(_rows(report), key=lambda one: one.frames, reverse=True)
    yield _flow_table(shown[:SHOWN_FLOWS])
    if len(shown) > SHOWN_FLOWS:
        yield Text(f"… and {len(shown) - SHOWN_FLOWS} smaller flows (--json has them all)", style="dim")
    for note in report.notes:
        yield Text(f"note: {note}", style="dim")
    yield Text()
    yield from _verdict(report)


def _headline(report: AuditReport) -> Text:
    good = sum(one.flow.icrc_good for one in report.flows)
    packets = sum(one.frames for one in report.flows)
    text = Text.assemble(
        (report.path, "bold"), f": {report.frames} frames, {packets} RoCEv2 packets, ICRC right in {good}"
    )
    if bad := sum(one.flow.icrc_bad for one in report.flows):
        text.append(f", wrong in {bad}", style="bold red")
    if unchecked := sum(one.flow.icrc_unchecked for one in report.flows):
        text.append(f", unchecked in {unchecked}")
    return text


def _opcode_table(report: AuditReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("opcode")
    table.add_column("packets", justify="right")
    for opcode, count in sorted(report.opcodes.items()):
        table.add_row(opcode_name(opcode), str(count))
    return table


def _rows(report: AuditReport) -> list[FlowReport]:
    """Flows that are no mere answers to another one: those stand in the other's row."""
    answering = {one.answered_by for one in report.flows}
    return [one for one in report.flows if one.data_frames or one.flow.key.label not in answering]


def _answers(one: FlowReport) -> Answers:
    return one.carried if one.answers is None and not one.data_frames else one.answers or Answers()


def _counted(value: int) -> str:
    return str(value) if value else _NOTHING


def _naks(one: FlowReport) -> str:
    answers = _answers(one)
    return _counted(answers.naks.total() + answers.rnr_naks)


def _missing(one: FlowReport) -> str:
    return f"{one.course.gaps} / {one.course.missing}" if one.course.gaps else _NOTHING


def _cnp_gap(one: FlowReport) -> str:
    gap = _answers(one).smallest_cnp_gap_ns
    return _NOTHING if gap is None else format_duration(gap)


def _sizes(one: FlowReport) -> str:
    sizes = one.messages.sizes
    if not sizes:
        return _NOTHING
    size, count = sizes.most_common(1)[0]
    others = f" +{len(sizes) - 1} sizes" if len(sizes) > 1 else ""
    return f"{count} × {format_size(size)}{others}"  # noqa: RUF001 (a multiplication sign)


def _goodput(one: FlowReport) -> str:
    return _NOTHING if one.goodput_bps is None else f"{one.goodput_bps / _GIGA:.3g}"


_COLUMNS = (
    _Column("flow", lambda one: one.flow.key.label.replace(" > ", " >\n")),
    _Column("data", lambda one: _counted(one.data_frames)),
    _Column("messages", _sizes),
    _Column("gaps /\nmissing", _missing),
    _Column("re-\nsent", lambda one: _counted(one.course.retransmitted)),
    _Column("dupli-\ncates", lambda one: _counted(one.course.duplicates)),
    _Column("go-back-N", lambda one: _go_back_n(one)),
    _Column("ACK", lambda one: _counted(_answers(one).acks)),
    _Column("NAK", _naks),
    _Column("CE", lambda one: _counted(one.flow.congested)),
    _Column("CNP", lambda one: _counted(_answers(one).cnps)),
    _Column("CNP\ngap", _cnp_gap),
    _Column("Gb/s", _goodput),
)


def _go_back_n(one: FlowReport) -> str:
    verdict = one.course.go_back_n
    return _NOTHING if verdict == "none" else f"{verdict} ({one.course.restarts})"


def _flow_table(flows: list[FlowReport]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for at, column in enumerate(_COLUMNS):
        table.add_column(column.title, justify="left" if at == 0 else "right", vertical="bottom", no_wrap=at != 0)
    for one in flows:
        table.add_row(*(column.cell(one) for column in _COLUMNS))
    return table


def _verdict(report: AuditReport) -> Iterator[RenderableType]:
    if not report.violations:
        yield Text("No rule is broken.", style="bold green")
        return
    count = len(report.violations)
    yield Text(f"{count} violation{'s' * (count != 1)}: {_rules(report.violations)}", style="bold red")
    for one in report.violations[:SHOWN_VIOLATIONS]:
        where = f" ({one.flow})" if one.flow else ""
        yield Text.assemble(f"frame {one.frame}: ", (one.rule.title, "bold"), f": {one.problem}{where}")
    if count > SHOWN_VIOLATIONS:
        yield Text(f"… and {count - SHOWN_VIOLATIONS} more (--json has them all)", style="dim")


def _rules(violations: tuple[Violation, ...]) -> str:
    counts = Counter(one.rule for one in violations)
    return ", ".join(f"{rule.title} {count}" for rule, count in counts.most_common())
