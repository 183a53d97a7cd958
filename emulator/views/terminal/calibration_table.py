"""A calibration for a terminal: a line per transport, then the timer and the clocks."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from emulator.results.statistics.tester.calibration import Calibration, TransportCost
from emulator.units import format_duration
from emulator.views.columns.columns import Column, bold, explain
from emulator.views.columns.figures import NONE, duration_cell, number_cell, rate_cell
from emulator.views.terminal.table import FittedTable, facts_grid

_TRANSPORTS: tuple[Column[TransportCost], ...] = (
    Column("transport", "transport of the agents", key="transport", is_number=False),
    Column("ranks", "ranks, which exchange data in pairs", key="ranks"),
    Column("agents", "agent processes", key="agents"),
    Column(
        "rate\nGB/s",
        "payload of all ranks together with large messages",
        unit="1e9 bytes per second",
        key="rate_bytes_per_s",
        show=rate_cell,
        style=bold,
    ),
    Column("step", "time of a step with almost no payload", key="step_ns", show=duration_cell),
    Column("per\nmessage", "step / ranks: cost of a message", key="message_ns", show=duration_cell),
    Column(
        "variation",
        "coefficient of variation of the largest collectives",
        cell=lambda one: NONE if one.variation is None else f"{number_cell(100 * one.variation)} %",
    ),
)
EXPLAIN = explain(_TRANSPORTS, title="What the tester achieves without a device under test:")


def render(made: Calibration) -> RenderableType:
    """The calibration for a console."""
    about = f"The tester alone, over {made.where}: payload of all ranks together, in pairs"
    table = FittedTable(_TRANSPORTS, made.transports)
    return Group(Text(about, style="bold"), Text(), table, Text(), facts_grid(_lines(made)))


def _lines(made: Calibration) -> Iterator[tuple[str, str]]:
    timer = made.timer
    tail = f"p99 {format_duration(timer.p99_ns)}, max {format_duration(timer.max_ns)} of {timer.alarms:,} alarms"
    yield "Timer", f"{format_duration(timer.p50_ns)} late at the median, {tail}"
    for clock in made.clocks:
        error = format_duration(clock.error_ns) if clock.error_ns else "none: it shares the controller's clock"
        yield "Clock", f"{clock.agent}: offset {format_duration(clock.offset_ns)}, error {error}"
