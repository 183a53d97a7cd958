"""A run in the terminal while it goes on, from its messages over MQTT."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from emulator.annexes.telemetry.broker import Broker
from emulator.annexes.telemetry.observed_run import ObservedRun
from emulator.annexes.telemetry.payloads import TopicKind
from emulator.errors import RunError
from emulator.units import format_size
from emulator.views.columns.columns import Column, explain
from emulator.views.columns.figures import duration_cell
from emulator.views.terminal.table import FittedTable
from emulator.visible import visible

_Class = Mapping[str, Any]
_COLUMNS: tuple[Column[_Class], ...] = (
    Column(
        "collective",
        "kind of communication",
        cell=lambda row: visible(str(row["collective"])),
        is_number=False,
        folds=24,
    ),
    Column("ranks", "ranks in the process group", cell=lambda row: str(row["group_size"])),
    Column("size", "array size, counted as in nccl-tests", cell=lambda row: format_size(row["size_bytes"])),
    Column(
        "algorithm", "collective algorithm", cell=lambda row: visible(str(row["algorithm"])), is_number=False, folds=24
    ),
    Column("count", "collectives of this class in the iteration", cell=lambda row: str(row["count"])),
    Column(
        "cct p50",
        "collective completion time, median: last arrival - last post over the members",
        cell=lambda row: duration_cell(row["cct_p50_ns"]),
    ),
    Column("cct max", "largest cct", cell=lambda row: duration_cell(row["cct_max_ns"])),
)
EXPLAIN = explain(_COLUMNS, title="Classes of collectives in the last iteration:")


async def follow(broker: Broker, run_id: str | None, *, is_json: bool) -> None:
    """Show a run until it ends.

    Args:
        run_id: the run; None: the first that has not ended.
        is_json: print every message as a line of JSON instead.

    Raises:
        RunError: the broker cannot be reached, the connection broke, or the run did not complete.
    """
    import aiomqtt

    run = ObservedRun(run_id)
    console = Console(file=sys.stderr if is_json else sys.stdout)
    with contextlib.ExitStack() as stack:
        live = None if is_json else Live(render(run), console=console, refresh_per_second=4)
        if live is not None:
            if not console.is_terminal:
                stack.callback(console.line)  # rich ends its last line in a terminal only
            stack.enter_context(live)
        try:
            async with broker.client() as client:
                await client.subscribe(f"{broker.prefix}/{run_id or '+'}/#", qos=1)
                async for message in client.messages:
                    if not run.receive(str(message.topic).removeprefix(f"{broker.prefix}/"), message.payload):
                        continue
                    if live is None:
                        print(json.dumps({"topic": str(message.topic), **run.latest}), flush=True)
                    else:
                        live.update(render(run))
                    if run.is_over:
                        break
        except aiomqtt.MqttError as error:
            raise RunError(f"the broker {broker.host}:{broker.port} cannot be reached ({error})") from error
    if run.state != "complete":
        raise RunError(f"the run ended as {run.state}: {run.reason}" if run.reason else f"the run ended as {run.state}")


def render(run: ObservedRun) -> RenderableType:
    """The latest state, progress, and classes of a run."""
    if run.run_id is None:
        return Text("waiting for a run")
    state, progress = run.facts(TopicKind.STATE), run.facts(TopicKind.PROGRESS)
    headline = f"{run.run_id}  {state.get('trace', '')}  {state.get('ranks', '?')} ranks  {run.state}"
    parts: list[RenderableType] = [Text(visible(headline), "bold")]
    if progress:
        rate = f"{progress['bits_per_second'] / 1e9:.2f} Gbit/s payload"
        parts.append(ProgressBar(total=progress["nodes"], completed=progress["nodes_done"], width=40))
        parts.append(Text(f"iteration {progress['iteration']}, {format_size(progress['bytes_sent'])} sent, {rate}"))
    parts += [Text(visible(f"{agent}: waiting for {what}")) for agent, what in run.waiting]
    if completions := run.facts(TopicKind.COMPLETIONS):
        parts += [Text(f"iteration {completions['iteration']}"), FittedTable(_COLUMNS, completions["classes"])]
    return Group(*parts)
