"""An audit's report as a table for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
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
_GAP = 3
_LEAST_FLOW_WIDTH = 20


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the flow table.

    Attributes:
        optional: only there where a row has something in it.
        sacrifice: the largest is left out first where the terminal is narrow; 0: never.
    """

    title: str
    cell: Callable[[FlowReport], str]
    optional: bool = False
    sacrifice: int = 0


def render(report: AuditReport) -> RenderableType:
    """The report for a console."""
    return Group(*_parts(report))


def _parts(report: AuditReport) -> Iterator[RenderableType]:
    yield _headline(report)
    yield Text(_totals(report))
    yield Text()
    yield _opcode_table(report)
    yield Text()
    shown = sorted(_rows(report), key=lambda one: one.frames, reverse=True)
    yield _FlowTable(shown[:SHOWN_FLOWS])
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


def _totals(report: AuditReport) -> str:
    """One line that also says what there was none of."""
    carried = [one.carried for one in report.flows]
    naks = sum((one.naks for one in carried), Counter[str]())
    facts: dict[str, int | str] = {
        "data": sum(one.data_frames for one in report.flows),
        "ACK": sum(one.acks for one in carried),
        "NAK": ", ".join(f"{count} {name}" for name, count in naks.items()) or 0,
        "RNR": sum(one.rnr_naks for one in carried),
        **{name: sum(getattr(one.course, name) for one in report.flows) for name in ("gaps", "missing")},
        "resent": sum(one.course.retransmitted for one in report.flows),
        "duplicates": sum(one.course.duplicates for one in report.flows),
        "CE": sum(one.flow.congested for one in report.flows),
        "CNP": sum(one.cnps for one in carried),
    }
    return " · ".join(f"{name} {value}" for name, value in facts.items())


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
    others = " …" if len(sizes) > 1 else ""
    return f"{count} × {format_size(size)}{others}"  # noqa: RUF001 (a multiplication sign)


def _goodput(one: FlowReport) -> str:
    return _NOTHING if one.goodput_bps is None else f"{one.goodput_bps / _GIGA:.3g}"


_COLUMNS = (
    _Column("flow", lambda one: one.flow.key.label.replace(" QP", "\nQP")),
    _Column("data", lambda one: _counted(one.data_frames)),
    _Column("messages", _sizes, sacrifice=4),
    _Column("gaps /\nmissing", _missing, optional=True),
    _Column("re-\nsent", lambda one: _counted(one.course.retransmitted), optional=True),
    _Column("dupli-\ncates", lambda one: _counted(one.course.duplicates), optional=True, sacrifice=7),
    _Column("go-back-N", lambda one: _go_back_n(one), optional=True, sacrifice=3),
    _Column("ACK", lambda one: _counted(_answers(one).acks), sacrifice=5),
    _Column("NAK", _naks, optional=True),
    _Column("CE", lambda one: _counted(one.flow.congested), optional=True, sacrifice=2),
    _Column("CNP", lambda one: _counted(_answers(one).cnps), optional=True, sacrifice=1),
    _Column("CNP\ngap", _cnp_gap, optional=True, sacrifice=6),
    _Column("Gb/s", _goodput),
)


def _go_back_n(one: FlowReport) -> str:
    verdict = one.course.go_back_n
    return _NOTHING if verdict == "none" else f"{verdict} ({one.course.restarts})"


@dataclass(frozen=True, slots=True)
class _FlowTable:
    """A row for each flow; where the width does not suffice, columns are left out and named: no number is cut."""

    flows: Sequence[FlowReport]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cells = {one.title: [one.cell(flow) for flow in self.flows] for one in _COLUMNS}
        columns = [one for one in _COLUMNS if not one.optional or any(cell != _NOTHING for cell in cells[one.title])]
        left_out = []
        while self._needed(columns, cells) > options.max_width and any(one.sacrifice for one in columns):
            left_out.append(max(columns, key=lambda one: one.sacrifice))
            columns.remove(left_out[-1])
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column(columns[0].title, vertical="bottom", overflow="fold")
        for column in columns[1:]:
            table.add_column(column.title, justify="right", vertical="bottom", no_wrap=True)
        for at in range(len(self.flows)):
            table.add_row(*(cells[column.title][at] for column in columns))
        yield table
        if left_out:
            names = ", ".join(column.title.replace("-\n", "").replace("\n", " ") for column in left_out)
            yield Text(f"Left out at this width: {names}.", style="dim")

    @staticmethod
    def _needed(columns: Sequence[_Column], cells: Mapping[str, Sequence[str]]) -> int:
        """Columns of the terminal; addresses may be folded."""
        texts = ([*one.title.split("\n"), *cells[one.title]] for one in columns[1:])
        return _LEAST_FLOW_WIDTH + sum(_GAP + max(map(cell_len, one)) for one in texts)


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
