"""What is found by name: the built-ins in one table, and what other distributions install (docs/plugins.md).

The core never imports an annex: it asks here, and a module is loaded when it is used. Entry points of the group
`charkha.<kind>` are read only for names that the table does not know, because reading them takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from emulator.errors import HostError, InputError
from emulator.suggestions import did_you_mean


class PluginKind(StrEnum):
    """What a plug-in adds. Hooks are what the core asks of annexes: nobody else can add one."""

    COMMANDS = "commands"
    IMPORTERS = "importers"
    EXPORTS = "exports"
    ENGINES = "engines"
    HOOKS = "hooks"


_ANNEXES = "emulator.annexes."
_CORE_COMMANDS = (
    *("run", "bench", "bench pairs", "plan", "compare", "report", "sweep", "suite"),
    *("trace check", "trace generate", "trace view", "trace diff", "runs", "runs judge"),
    *("lab", "agent calibrate", "agent certs", "help", "help examples", "help completion", "box"),
)
BUILT_IN: Mapping[PluginKind, Mapping[str, str]] = {
    PluginKind.COMMANDS: {  # by their words
        **{words: f"emulator.cli.commands.{words.split()[-1]}:add_parser" for words in _CORE_COMMANDS},
        "agent launch": f"{_ANNEXES}launch.command:add_parser",
        "agent peer": f"{_ANNEXES}bench_kit.peer.command:add_parser",
        "agent start": "agents.command:add_parser",
        "lab probe": f"{_ANNEXES}bench_kit.probe.command:add_parser",
        "runs audit": f"{_ANNEXES}bench_kit.audit.command:add_parser",
        "runs export": f"{_ANNEXES}exports.command:add_parser",
        "runs watch": f"{_ANNEXES}telemetry.command:add_parser",
        "serve": f"{_ANNEXES}service.command:add_parser",
        "trace anonymize": f"{_ANNEXES}sharing.anonymize_command:add_parser",
        "trace convert": f"{_ANNEXES}importers.command:add_parser",
        "trace synth": f"{_ANNEXES}sharing.synth_command:add_parser",
    },
    PluginKind.IMPORTERS: {  # in the order in which they are asked
        "pytorch": f"{_ANNEXES}importers.pytorch.reading:PYTORCH",
        "flight-recorder": f"{_ANNEXES}importers.flight_recorder.reading:FLIGHT_RECORDER",
        "nccl-inspector": f"{_ANNEXES}importers.nccl_inspector:NCCL_INSPECTOR",
        "nccl-log": f"{_ANNEXES}importers.nccl_log:NCCL_LOG",
        "aicb": f"{_ANNEXES}importers.aicb:AICB",
        "kvbench": f"{_ANNEXES}importers.kvbench:KVBENCH",
    },
    PluginKind.EXPORTS: {
        "perfetto": f"{_ANNEXES}exports.perfetto:PERFETTO",
        "nccl-tests": f"{_ANNEXES}exports.nccl_tests:NCCL_TESTS",
        "nccl-tests-json": f"{_ANNEXES}exports.nccl_tests:NCCL_TESTS_JSON",
        "nccl-inspector": f"{_ANNEXES}exports.nccl_inspector:NCCL_INSPECTOR",
        "kvbench": f"{_ANNEXES}exports.kvbench:KVBENCH",
        "kvbench-json": f"{_ANNEXES}exports.kvbench:KVBENCH_JSON",
        "astra-sim": f"{_ANNEXES}exports.astra_sim.package:ASTRA_SIM",
        "csv": f"{_ANNEXES}exports.tables:CSV",
        "junit": f"{_ANNEXES}exports.formats:JUNIT",
    },
    PluginKind.ENGINES: {
        "local": f"{_ANNEXES}launch.launch_here:LOCAL",
        "ssh": f"{_ANNEXES}launch.launch_here:SSH",
        "slurm": f"{_ANNEXES}launch.launch_here:SLURM",
        "kubernetes": f"{_ANNEXES}launch.launch_kubernetes:KUBERNETES",
    },
    PluginKind.HOOKS: {
        "import_files": f"{_ANNEXES}importers.registry:import_files",
        "read_requests": f"{_ANNEXES}importers.mooncake:read_requests",
        "publishing": f"{_ANNEXES}telemetry.publishing:publishing",
        "trace_line_writer": f"{_ANNEXES}exports.trace_perfetto:trace_line_writer",
    },
}
"""PluginKind → name → `module:attribute`."""


@cache
def installed(kind: PluginKind) -> Mapping[str, EntryPoint]:
    """Entry points of other distributions by name, without those that have the name of a built-in; read once.

    Raises:
        HostError: two of them have the same name.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=f"charkha.{kind}"):
        if found.get(point.name, point).value != point.value:
            raise _broken(kind, point, f"{found[point.name].value} has the same name")
        if point.name not in BUILT_IN[kind]:
            found[point.name] = point
    return found


def is_known(kind: PluginKind, name: str) -> bool:
    """Whether there is a plug-in of this name."""
    return name in BUILT_IN[kind] or name in installed(kind)


def load(kind: PluginKind, name: str, expected: type = object) -> Any:
    """What is registered under a name, an instance of `expected`.

    Raises:
        InputError: there is no such name.
        HostError: an entry point cannot be loaded, or names something else.
    """
    if name in BUILT_IN[kind]:
        module, _, attribute = BUILT_IN[kind][name].partition(":")
        return getattr(import_module(module), attribute)
    if name not in installed(kind):
        known = [*BUILT_IN[kind], *installed(kind)]
        advice = did_you_mean(name, known) or f"; there are {', '.join(known)}"
        raise InputError(f"{kind}: there is no {name!r}{advice}")
    point = installed(kind)[name]
    try:
        plugin = point.load()
    except Exception as error:  # foreign code can raise anything; the message must name it
        raise _broken(kind, point, f"{type(error).__name__}: {error}") from error
    if not isinstance(plugin, expected):
        raise _broken(kind, point, f"it must name an instance of {expected.__module__}.{expected.__name__}")
    return plugin


def _broken(kind: PluginKind, point: EntryPoint, problem: str) -> HostError:
    source = f" of {point.dist.name}" if point.dist is not None else ""
    return HostError(
        f"{kind}: {point.name!r} ({point.value}{source}) cannot be used: {problem}; repair or uninstall it"
    )
