"""`charkha watch`: follows runs over MQTT in the terminal."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from emulator.errors import InputError, RunError
from emulator.experiment.telling import broker
from emulator.telemetry.messages import LOST, Kind
from emulator.telemetry.mqtt import Broker, require_mqtt
from emulator.units import format_duration, format_size
from emulator.visible import visible

if TYPE_CHECKING:
    from emulator.cli.options.arguments import Subparsers

_OVER = ("complete", "aborted", LOST)
_EXAMPLE = """example:
  charkha watch mqtt://localhost

Shows the run that is going on, or the next one, and ends with it: exit code 0 when it completed, 1 when it did not.
Runs publish with `charkha run --mqtt URL`. docs/telemetry.md has the topics.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `watch` to the command line."""
    parser = subparsers.add_parser(
        "watch",
        help="follow a run over MQTT",
        description="Follow a run over MQTT: its state, progress, and the classes of its last iteration.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("broker", metavar="URL", help="mqtt://[USER@]HOST[:PORT][/PREFIX]")
    parser.add_argument("--run", metavar="ID", help="this run only (default: the first that is not over)")
    parser.add_argument("--json", action="store_true", help="every message as a line of JSON on stdout")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Follow a run to its end.

    Raises:
        InputError: no such broker.
        RunError: the broker cannot be reached, or went away; or the run did not complete.
        HostError: aiomqtt is missing.
    """
    require_mqtt()
    if args.run is not None and any(character in args.run for character in "/+#"):
        raise InputError(f"--run {args.run}: is no run id")
    view = RunView(args.run)
    last = asyncio.run(_follow(broker(args.broker), view, is_json=args.json))
    if last != "complete":
        raise RunError(f"the run ended as {last}: {view.reason}" if view.reason else f"the run ended as {last}")
    return 0


async def _follow(target: Broker, view: RunView, *, is_json: bool) -> str:
    """Show a run to its end; returns the last state."""
    import aiomqtt

    console = Console(file=sys.stderr if is_json else sys.stdout)
    with contextlib.nullcontext() if is_json else Live(view.render(), console=console, refresh_per_second=4) as live:
        try:
            async with target.client() as client:
                await client.subscribe(f"{target.prefix}/{view.run_id or '+'}/#", qos=1)
                async for message in client.messages:
                    if not view.take(str(message.topic).removeprefix(f"{target.prefix}/"), message.payload):
                        continue
                    if live is None:
                        print(json.dumps({"topic": str(message.topic)} | view.latest), flush=True)
                    else:
                        live.update(view.render())
                    if view.state in _OVER:
                        return view.state
        except aiomqtt.MqttError as error:
            raise RunError(f"the broker {target.host}:{target.port} cannot be reached ({error})") from error
    raise AssertionError("messages of a connection end with an error")


class RunView:
    """What is known of one run.

    Attributes:
        run_id: of the run; None until one is found.
        state: the last one that was told.
        latest: the payload of the last message.
    """

    def __init__(self, run_id: str | None) -> None:
        self.run_id, self.state = run_id, ""
        self.latest: dict[str, Any] = {}
        self._facts: dict[str, dict[str, Any]] = {}
        self._agents: dict[str, dict[str, Any]] = {}

    @property
    def reason(self) -> str | None:
        """Why the run ended, where it said so."""
        return self._facts.get(Kind.STATE, {}).get("reason")

    def take(self, topic: str, payload: object) -> bool:
        """Take a message in; False where it is of another run, or none of ours.

        Args:
            topic: without the prefix: run, kind, and the agent's name.
            payload: as it came.
        """
        run_id, _, rest = topic.partition("/")
        kind = rest.partition("/")[0]
        said = _parse(payload)
        if said is None or kind not in set(Kind) or (self.run_id is not None and run_id != self.run_id):
            return False
        if self.run_id is None:
            if kind != Kind.STATE or said.get("state") in _OVER:  # what an earlier run left behind
                return False
            self.run_id = run_id
        self.latest = said
        if kind == Kind.AGENT:
            self._agents[str(said.get("agent"))] = said
        else:
            self._facts[kind] = self._facts.get(kind, {}) | said if kind == Kind.STATE else said
        self.state = str(self._facts.get(Kind.STATE, {}).get("state", ""))
        return True

    def render(self) -> RenderableType:
        """The run as it stands."""
        if self.run_id is None:
            return Text("waiting for a run")
        state, progress = self._facts.get(Kind.STATE, {}), self._facts.get(Kind.PROGRESS, {})
        lines: list[RenderableType] = [
            Text(
                visible(f"{self.run_id}  {state.get('trace', '')}  {state.get('ranks', '?')} ranks  {self.state}"),
                "bold",
            )
        ]
        if progress:
            rate = f"{progress['bits_per_second'] / 1e9:.2f} Gbit/s payload"
            lines.append(ProgressBar(total=progress["nodes"], completed=progress["nodes_done"], width=40))
            lines.append(Text(f"iteration {progress['iteration']}, {format_size(progress['bytes_sent'])} sent, {rate}"))
        lines += [Text(visible(f"{name}: waiting for {one['waiting_on']}")) for name, one in self._waiting()]
        if Kind.COMPLETIONS in self._facts:
            lines.append(_classes(self._facts[Kind.COMPLETIONS]))
        return Group(*lines)

    def _waiting(self) -> list[tuple[str, dict[str, Any]]]:
        return [(name, one) for name, one in sorted(self._agents.items()) if one.get("waiting_on")]


def _parse(payload: object) -> dict[str, Any] | None:
    try:
        said = json.loads(payload) if isinstance(payload, bytes | str) else None
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _classes(said: dict[str, Any]) -> Table:
    table = Table(title=f"iteration {said['iteration']}", title_justify="left", box=None)
    for title in ("collective", "ranks", "size", "algorithm", "count", "cct p50", "cct max"):
        table.add_column(title, justify="left" if title in ("collective", "algorithm") else "right")
    for one in said["classes"]:
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
