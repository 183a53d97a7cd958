"""`charkha runs watch`: follow a run in the terminal while it goes on, from its messages over MQTT."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from emulator.annexes.telemetry.messages import KINDS, LOST, Broker, TelemetryPayload, TopicKind, schema
from emulator.annexes.telemetry.publishing import broker
from emulator.cli.output import print_json
from emulator.cli.parser import Subparsers
from emulator.errors import InputError, RunError
from emulator.schema import SchemaProblem, decode, parse_json
from emulator.units import format_size
from emulator.views.columns.columns import Column, explain
from emulator.views.columns.figures import duration_cell
from emulator.views.terminal.table import FittedTable
from emulator.visible import visible

FINAL_STATES = ("complete", "aborted", LOST)


class ObservedRun:
    """The latest facts of one run.

    Args:
        run_id: the run to observe; None: the first one that reports a state that is not final.

    Attributes:
        run_id: None until a run is found.
        latest: the payload of the last message.
    """

    def __init__(self, run_id: str | None = None) -> None:
        self.run_id = run_id
        self.latest: Mapping[str, Any] = {}
        self._facts: dict[str, Mapping[str, Any]] = {}
        self._agents: dict[str, Mapping[str, Any]] = {}

    @property
    def state(self) -> str:
        """The last state that was reported; empty before the first."""
        return str(self._facts.get(TopicKind.STATE, {}).get("state", ""))

    @property
    def is_over(self) -> bool:
        """The run has ended, or the broker lost it."""
        return self.state in FINAL_STATES

    @property
    def reason(self) -> str | None:
        """Why the run ended, if it reported a reason."""
        return self._facts.get(TopicKind.STATE, {}).get("reason")

    @property
    def waiting(self) -> list[tuple[str, str]]:
        """(agent, what it is waiting for), by agent."""
        return [(name, str(one["waiting_on"])) for name, one in sorted(self._agents.items()) if one.get("waiting_on")]

    def facts(self, kind: TopicKind) -> Mapping[str, Any]:
        """The latest payload of a kind; of STATE, all payloads together. Empty if there was none."""
        return self._facts.get(kind, {})

    def receive(self, topic: str, payload: object) -> bool:
        """Take a message.

        Args:
            topic: without the prefix: run, kind, and for an agent its name.
            payload: as received: anybody may publish anything.

        Returns:
            False if the message belongs to another run or is not of its type; it changes nothing then.
        """
        run_id, _, rest = topic.partition("/")
        kind = rest.partition("/")[0]
        found = _parse(payload, _TYPES[TopicKind(kind)]) if kind in _TYPES else None
        if found is None or not self._is_ours(run_id, kind, found):
            return False
        self.run_id, self.latest = run_id, found
        if kind == TopicKind.AGENT:
            self._agents[str(found.get("agent"))] = found
        elif kind == TopicKind.STATE:
            self._facts[kind] = {**self._facts.get(kind, {}), **found}
        else:
            self._facts[kind] = found
        return True

    def _is_ours(self, run_id: str, kind: str, found: Mapping[str, Any]) -> bool:
        if self.run_id is not None:
            return run_id == self.run_id
        # A broker keeps the last state of earlier runs.
        return kind == TopicKind.STATE and found.get("state") not in FINAL_STATES


_TYPES = {kind: payload for payload, kind in KINDS.items()}


def _parse(payload: object, kind: type[TelemetryPayload]) -> dict[str, Any] | None:
    """What somebody published, as plain values; None: it is no such payload."""
    try:
        found: dict[str, Any] = parse_json(payload, has_paths=False) if isinstance(payload, bytes) else {}
        decode(found, kind)
    except SchemaProblem:
        return None
    return found


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


_EPILOG = """example:
  charkha runs watch mqtt://localhost

Follows the current run, or the next one, until it ends. Exit code 0: it completed,
1: it did not. Runs publish with `charkha run --mqtt URL`. docs/telemetry.md lists the topics.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `watch` to the command line."""
    parser = subparsers.add_parser(
        "watch",
        description="Follow a run over MQTT: state, progress, and the classes of the last iteration.",
        epilog=_EPILOG,
    )
    parser.add_argument("broker", metavar="URL", nargs="?", help="mqtt://[USER@]HOST[:PORT][/PREFIX]")
    parser.add_argument("--run", metavar="ID", help="follow this run only (default: the first that has not ended)")
    parser.add_argument("--json", action="store_true", help="print every message as a line of JSON")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of all messages, and end")
    parser.add_explain("emulator.annexes.telemetry.watching")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    if args.schema:
        print_json(schema())
        return
    if args.broker is None:
        raise InputError("give the URL of the broker that the run publishes to: mqtt://[USER@]HOST[:PORT][/PREFIX]")
    if args.run is not None and any(character in args.run for character in "/+#"):
        raise InputError(f"--run {args.run}: a run id has no /, + or #")
    asyncio.run(follow(broker(args.broker), args.run, is_json=args.json))
