"""`charkha runs audit`: check captured RoCEv2 frames of any endpoint.

The report has totals, opcodes, a line per flow, and broken rules.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from emulator import exit_codes
from emulator.annexes.bench_kit.audit.audit import audit_file
from emulator.annexes.bench_kit.audit.flow import Violation
from emulator.annexes.bench_kit.audit.messages import Answers
from emulator.annexes.bench_kit.audit.report import AuditedFlow, AuditReport, opcode_name, to_json
from emulator.cli.output import print_json, print_tables
from emulator.cli.parser import Subparsers, at_least
from emulator.roce.constants import UDP_PORT
from emulator.units import format_size
from emulator.views.columns.columns import Column, explain, paragraphs
from emulator.views.columns.figures import NONE, count_of, duration_cell
from emulator.views.terminal.table import FittedTable

SHOWN_FLOWS = 40
SHOWN_VIOLATIONS = 20
_GIGA = 1e9


def render(report: AuditReport) -> RenderableType:
    """The report for a console."""
    return Group(*_parts(report))


def _parts(report: AuditReport) -> Iterator[RenderableType]:
    yield _headline(report)
    yield Text(_totals(report))
    yield Text()
    yield FittedTable(_OPCODES, sorted(report.opcodes.items()))
    yield Text()
    shown = sorted(_rows(report), key=lambda one: one.frames, reverse=True)
    hidden = len(shown) - SHOWN_FLOWS
    more = f"… and {count_of(hidden, 'smaller flow')} (--json has them all)" if hidden > 0 else ""
    yield FittedTable(_FLOWS, shown[:SHOWN_FLOWS], more=more)
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
    """One line with every total, zeros included."""
    carried = [one.carried for one in report.flows]
    naks = sum((one.naks for one in carried), Counter[str]())
    facts: dict[str, int | str] = {
        "data": sum(one.data_frames for one in report.flows),
        "ACK": sum(one.acks for one in carried),
        "NAK": ", ".join(f"{count} {name}" for name, count in naks.items()) or 0,
        "RNR": sum(one.rnr_naks for one in carried),
        **{name: sum(getattr(one.stats, name) for one in report.flows) for name in ("gaps", "missing")},
        "resent": sum(one.stats.retransmitted for one in report.flows),
        "reordered": sum(one.stats.reordered for one in report.flows),
        "duplicates": sum(one.stats.duplicates for one in report.flows),
        "CE": sum(one.flow.ce_marked for one in report.flows),
        "CNP": sum(one.cnps for one in carried),
    }
    return " · ".join(f"{name} {value}" for name, value in facts.items())


def _rows(report: AuditReport) -> list[AuditedFlow]:
    """Flows with a row of their own: not those that only carry responses to another flow."""
    answering = {one.answered_by for one in report.flows}
    return [one for one in report.flows if one.data_frames or one.flow.key.label not in answering]


def _answers(one: AuditedFlow) -> Answers:
    return one.carried if one.answers is None and not one.data_frames else one.answers or Answers()


def _count(value: int) -> str:
    return str(value) if value else NONE


def _naks(one: AuditedFlow) -> str:
    answers = _answers(one)
    return _count(answers.naks.total() + answers.rnr_naks)


def _missing(one: AuditedFlow) -> str:
    return f"{one.stats.gaps} / {one.stats.missing}" if one.stats.gaps else NONE


def _reordered(one: AuditedFlow) -> str:
    return f"{one.stats.reordered} / {one.stats.reordering_extent}" if one.stats.reordered else NONE


def _cnp_gap(one: AuditedFlow) -> str:
    return duration_cell(_answers(one).smallest_cnp_gap_ns)


def _sizes(one: AuditedFlow) -> str:
    sizes = one.messages.sizes
    if not sizes:
        return NONE
    size, count = sizes.most_common(1)[0]
    others = " …" if len(sizes) > 1 else ""
    return f"{count} × {format_size(size)}{others}"  # noqa: RUF001 (a multiplication sign)


def _goodput(one: AuditedFlow) -> str:
    return NONE if one.goodput_bps is None else f"{one.goodput_bps / _GIGA:.3g}"


def _go_back_n(one: AuditedFlow) -> str:
    verdict = one.stats.go_back_n
    return NONE if verdict == "none" else f"{verdict} ({one.stats.restarts})"


_OPCODES: tuple[Column[tuple[int, int]], ...] = (
    Column("opcode", "BTH opcode", cell=lambda row: opcode_name(row[0]), is_number=False),
    Column("packets", "packets with this opcode", cell=lambda row: str(row[1])),
)
_FLOWS: tuple[Column[AuditedFlow], ...] = (
    Column(
        "flow",
        "source address > destination address and queue pair",
        cell=lambda one: one.flow.key.label.replace(" QP", "\nQP"),
        is_number=False,
        folds=20,
    ),
    Column("data", "request packets and unreliable datagrams", cell=lambda one: _count(one.data_frames)),
    Column("messages", "messages × the most frequent size; … = also other sizes", cell=_sizes, sacrifice=4),  # noqa: RUF001
    Column("gaps /\nmissing", "jumps forward in the PSN / PSNs skipped by them", cell=_missing, is_optional=True),
    Column(
        "reordered /\nextent",
        "packets that arrive after newer ones / how many packets late the latest of them is",
        cell=_reordered,
        is_optional=True,
    ),
    Column(
        "re-\nsent",
        "retransmissions: packets whose PSN is not newer than all previous ones",
        cell=lambda one: _count(one.stats.retransmitted),
        is_optional=True,
    ),
    Column(
        "dupli-\ncates",
        "retransmissions of packets that the capture already has",
        cell=lambda one: _count(one.stats.duplicates),
        is_optional=True,
        sacrifice=7,
    ),
    Column(
        "go-back-N",
        "whether the retransmissions are those of go-back-N, and the number of jumps back",
        cell=lambda one: _go_back_n(one),
        is_optional=True,
        sacrifice=3,
    ),
    Column("ACK", "acknowledgements of this flow", cell=lambda one: _count(_answers(one).acks), sacrifice=5),
    Column("NAK", "negative acknowledgements of this flow, including RNR NAKs", cell=_naks, is_optional=True),
    Column(
        "CE",
        "packets marked Congestion Experienced (ECN)",
        cell=lambda one: _count(one.flow.ce_marked),
        is_optional=True,
        sacrifice=2,
    ),
    Column(
        "CNP",
        "congestion notification packets sent to the sender of this flow",
        cell=lambda one: _count(_answers(one).cnps),
        is_optional=True,
        sacrifice=1,
    ),
    Column("CNP\ngap", "shortest time between two CNPs", cell=_cnp_gap, is_optional=True, sacrifice=6),
    Column(
        "Gb/s",
        "goodput: new payload / time from the first to the last packet with new payload",
        unit="1e9 bits per second",
        cell=_goodput,
    ),
)
EXPLAIN = paragraphs(
    explain(_OPCODES, title="Opcodes:"),
    explain(_FLOWS, title="Flows; responses are counted in the row of the flow they belong to:"),
)


def _verdict(report: AuditReport) -> Iterator[RenderableType]:
    if not report.violations:
        is_whole = not any(one.stats.has_unread for one in report.flows)
        verdict = "No rule is broken." if is_whole else "No rule that could be judged is broken."
        yield Text(verdict, style="bold green")
        return
    count = len(report.violations)
    yield Text(f"{count_of(count, 'violation')}: {_rules(report.violations)}", style="bold red")
    for one in report.violations[:SHOWN_VIOLATIONS]:
        where = f" ({one.flow})" if one.flow else ""
        yield Text.assemble(f"frame {one.frame}: ", (one.rule.title, "bold"), f": {one.problem}{where}")
    if count > SHOWN_VIOLATIONS:
        yield Text(f"… and {count - SHOWN_VIOLATIONS} more (--json has them all)", style="dim")


def _rules(violations: tuple[Violation, ...]) -> str:
    counts = Counter(one.rule for one in violations)
    return ", ".join(f"{rule.title} {count}" for rule, count in counts.most_common())


_EPILOG = """example:
  tcpdump -i eth0 -w roce.pcap udp port 4791
  charkha runs audit roce.pcap

Exit code 1 means that a rule is violated; the frame number of each violation is shown. Losses, NAKs
and retransmissions violate no rule; they are counted. docs/audit.md explains every rule and column.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `audit` to the command line."""
    parser = subparsers.add_parser(
        "audit",
        description="Check captured RoCEv2 frames: ICRC, PSN order, ACKs and NAKs, retransmissions, CNPs.",
        epilog=_EPILOG,
    )
    parser.add_argument("capture", metavar="PCAP", type=Path, help="a pcap or pcapng file, plain or gzip")
    parser.add_argument(
        "--port", metavar="N", type=at_least(1, most=65_535), default=UDP_PORT, help=f"UDP port (default: {UDP_PORT})"
    )
    parser.add_argument("--json", action="store_true", help="print the whole report as JSON")
    parser.add_explain("emulator.annexes.bench_kit.audit.command")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> int:
    report = audit_file(args.capture, port=args.port)
    if args.json:
        print_json(to_json(report))
    else:
        print_tables(render(report))
    return exit_codes.FAILED if report.violations else exit_codes.DONE
