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
from rich.table import Table
from rich.text import Text

from emulator.errors import RunError
from emulator.telemetry.messages import Kind
from emulator.telemetry.mqtt import Broker
from emulator.telemetry.observed_run import ObservedRun
from emulator.units import format_duration, format_size
from emulator.visible import visible

EXPLAIN = """\
The table describes the last iteration, one row per class.
collective  the operation
ranks       ranks in its process group
size        payload, bytes
algorithm   how the collective was played
count       collectives of this class in the iteration
cct p50     median collective completion time: last completion minus last post
cct max     the longest one"""


async def follow(broker: Broker, run_id: str | None, *, is_json: bool) -> None:
    """Show a run until it ends.

    Args:
        broker: where the run publishes.
        run_id: the run; None: the first that has not ended.
        is_json: print every message as a line of JSON instead.

    Raises:
        RunError: the broker cannot be reached, the connection broke, or the run did not complete.
    """
    import aiomqtt

    run = ObservedRun(run_id)
    console = Console(file=sys.stderr if is_json else sys.stdout)
    with contextlib.nullcontext() if is_json else Live(render(run), console=console, refresh_per_second=4) as live:
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
    state, progress = run.facts(Kind.STATE), run.facts(Kind.PROGRESS)
    headline = f"{run.run_id}  {state.get('trace', '')}  {state.get('ranks', '?')} ranks  {run.state}"
    parts: list[RenderableType] = [Text(visible(headline), "bold")]
    if progress:
        rate = f"{progress['bits_per_second'] / 1e9:.2f} Gbit/s payload"
        parts.append(ProgressBar(total=progress["nodes"], completed=progress["nodes_done"], width=40))
        parts.append(Text(f"iteration {progress['iteration']}, {format_size(progress['bytes_sent'])} sent, {rate}"))
    parts += [Text(visible(f"{agent}: waiting for {what}")) for agent, what in run.waiting]
    if completions := run.facts(Kind.COMPLETIONS):
        parts.append(_classes(completions))
    return Group(*parts)


def _classes(completions: Mapping[str, Any]) -> Table:
    table = Table(title=f"iteration {completions['iteration']}", title_justify="left", box=None)
    for title in ("collective", "ranks", "size", "algorithm", "count", "cct p50", "cct max"):
        table.add_column(title, justify="left" if title in ("collective", "algorithm") else "right")
    for one in completions["classes"]:
        times = (one["cct_p50_ns"], one["cct_max_ns"])
        table.add_row(
            Text(visible(str(one["collective"]))),
            str(one["group_size"]),
            format_size(one["size_bytes"]),
            Text(visible(str(one["algorithm"]))),
            str(one["count"]),
            *(format_duration(value) if value is not None else "-" for value in times),
        )
    return table
