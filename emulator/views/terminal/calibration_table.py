"""A calibration for people."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emulator.statistics.calibration import Calibration
from emulator.units import format_duration
from emulator.views.figures import NONE, number_cell, rate_cell


def render(made: Calibration) -> RenderableType:
    """A row per transport, then the timer and the clocks."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("transport", "ranks", "agents", "rate\nGB/s", "step", "per\nmessage", "variation"):
        table.add_column(title, justify="left" if title == "transport" else "right", vertical="bottom")
    for one in made.transports:
        table.add_row(
            one.transport,
            str(one.ranks),
            str(one.agents),
            rate_cell(one.rate_bytes_per_s),
            format_duration(one.step_ns),
            format_duration(one.message_ns),
            NONE if one.variation is None else f"{number_cell(100 * one.variation)} %",
        )
    timer = made.timer
    late = f"p99 {format_duration(timer.p99_ns)}, max {format_duration(timer.max_ns)} of {timer.alarms} alarms"
    lines = [f"Timer        {format_duration(timer.p50_ns)} late at the median, {late}"]
    for clock in made.clocks:
        error = format_duration(clock.error_ns) if clock.error_ns else "none: it shares the controller's clock"
        lines.append(f"Clock        {clock.agent}: offset {format_duration(clock.offset_ns)}, error {error}")
    about = Text(f"The tester alone, over {made.where}: payload of all ranks together, in pairs", style="bold")
    return Group(about, Text(), table, Text(), *map(Text, lines))
