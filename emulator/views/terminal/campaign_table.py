"""The runs of a campaign, a row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from emulator.units import format_duration
from emulator.views.figures import NONE
from emulator.visible import visible


def render(runs: Sequence[Mapping[str, Any]]) -> Table:
    """The table.

    Args:
        runs: a mapping per run: `run` its name, `jct_ns` the median time of an iteration, `problem` if it failed.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("run", no_wrap=True)
    table.add_column("JCT, median", justify="right", no_wrap=True)
    table.add_column("problem")
    for one in runs:
        jct = NONE if one["jct_ns"] is None else format_duration(one["jct_ns"])
        table.add_row(visible(one["run"]), jct, visible(one["problem"] or NONE))
    return table
