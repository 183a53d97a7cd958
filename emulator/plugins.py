"""What is found by name: the built-ins in one table, and what other distributions install (docs/plugins.md).

The core never imports an annex: it asks here, and a module is loaded when it is used. Entry points of the group
`charkha.<kind>` are read only for names that the table does not know, because reading them takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from emulator.errors import HostError, InputError
from emulator.suggestions import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class PluginKind(StrEnum):
    """What a plug-in adds. The last three are of this distribution alone; hooks are what others ask of an annex."""

    COMMANDS = "commands"
    IMPORTERS = "importers"
    EXPORTS = "exports"
    ENGINES = "engines"
    TRANSPORTS = "transports"
    FLOWS = "flows"
    HOOKS = "hooks"


_ANNEXES = "emulator.annexes."
_BESIDE_THE_NIC = "agents.annexes."
_COMMANDS = "emulator.cli.commands."
BUILT_IN: Mapping[PluginKind, Mapping[str, str]] = {
    PluginKind.COMMANDS: {  # by their words
        **{word: f"{_COMMANDS}{word}:add_parser" for word in ("run", "bench", "plan", "compare", "report")},
        "sweep": f"{_ANNEXES}series.sweep_command:add_parser",
        "suite": f"{_ANNEXES}series.suite_command:add_parser",
        "trace check": f"{_COMMANDS}check:add_parser",
        "runs": f"{_COMMANDS}runs:add_parser",
        "lab": f"{_COMMANDS}lab:add_parser",
        "agent calibrate": f"{_ANNEXES}bench_kit.calibrate:add_parser",
        "agent certs": f"{_ANNEXES}launch.certs:add_parser",
        "agent launch": f"{_ANNEXES}launch.launch_here:add_parser",
        "agent peer": f"{_ANNEXES}bench_kit.peer:add_parser",
        "agent start": "agents.command:add_parser",
        "help": f"{_COMMANDS}help:add_parser",
        "help completion": f"{_COMMANDS}help:add_completion",
        "help examples": f"{_COMMANDS}help:add_examples",
        "bench pairs": f"{_COMMANDS}bench:add_pairs",
        "box": f"{_COMMANDS}lab:add_box",
        "runs judge": f"{_COMMANDS}runs:add_judge",
        "demo": f"{_ANNEXES}demo.command:add_parser",
        "lab probe": f"{_ANNEXES}bench_kit.probing:add_parser",
        "runs audit": f"{_ANNEXES}bench_kit.audit.command:add_parser",
        "runs export": f"{_ANNEXES}exports.command:add_parser",
        "runs watch": f"{_ANNEXES}telemetry.watching:add_parser",
        "serve": f"{_ANNEXES}service.command:add_parser",
        "trace anonymize": f"{_ANNEXES}trace_kit.anonymize_command:add_parser",
        "trace convert": f"{_ANNEXES}importers.command:add_parser",
        "trace diff": f"{_ANNEXES}trace_kit.diff:add_parser",
        "trace generate": f"{_ANNEXES}workloads.generate:add_parser",
        "trace synth": f"{_ANNEXES}trace_kit.synth:add_parser",
        "trace view": f"{_ANNEXES}trace_kit.view:add_parser",
    },
    PluginKind.IMPORTERS: {  # in the order in which they are asked
        "pytorch": f"{_ANNEXES}importers.pytorch.reading:PYTORCH",
        "flight-recorder": f"{_ANNEXES}importers.flight_recorder_reading:FLIGHT_RECORDER",
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
        "astra-sim": f"{_ANNEXES}exports.astra_sim_package:ASTRA_SIM",
        "csv": f"{_ANNEXES}exports.formats:CSV",
        "junit": f"{_ANNEXES}exports.formats:JUNIT",
    },
    PluginKind.ENGINES: {
        "local": f"{_ANNEXES}launch.launch_here:LOCAL",
        "ssh": f"{_ANNEXES}launch.launch_here:SSH",
        "slurm": f"{_ANNEXES}launch.launch_here:SLURM",
        "kubernetes": f"{_ANNEXES}launch.launch_kubernetes:KUBERNETES",
    },
    PluginKind.TRANSPORTS: {  # agents make them; emulator/transports/registry.py has what others know of them
        "roce": "agents.transports.roce.transport:make",
        "zmq": f"{_BESIDE_THE_NIC}zmq.transport:make",
        "verbs": f"{_BESIDE_THE_NIC}verbs.transport:make",
    },
    PluginKind.FLOWS: {  # traffic beside the job, by kind: what makes its actor
        "perftest": f"{_BESIDE_THE_NIC}peer.perftest:make",
        "background": f"{_BESIDE_THE_NIC}background.actor:make",
    },
    PluginKind.HOOKS: {
        "import_files": f"{_ANNEXES}importers.importing:import_files",
        "import_topology": f"{_ANNEXES}topologies.reading:import_topology",
        "read_algorithm": f"{_ANNEXES}msccl.lanes:read_algorithm",
        "transformer_load": f"{_ANNEXES}workloads.transformer_traffic:transformer_load",
        "play_with_peer": f"{_BESIDE_THE_NIC}peer.echo:run",
        "migrations": f"{_ANNEXES}recovery:migrations",
        "event_figures": f"{_ANNEXES}recovery:event_figures",
        "port_rates": f"{_ANNEXES}timeline.rates:port_rates",
        "rate_sections": f"{_ANNEXES}timeline.page:sections",
        "job_rates": f"{_ANNEXES}timeline.page:job_rates",
        "start_routing": f"{_ANNEXES}routing:start",
        "await_routes": f"{_ANNEXES}routing:await_routes",
        "routing_version": f"{_ANNEXES}routing:version",
        "publishing": f"{_ANNEXES}telemetry.publishing:publishing",
        "live_page": f"{_ANNEXES}telemetry.live_page:main",
        "series_result": f"{_ANNEXES}series.stored:series_result",
        "suite_runs": f"{_ANNEXES}series.suite_document:single_runs",
        "suite_rules": f"{_ANNEXES}series.suite_document:rules_of_cases",
        "sweep_points": f"{_ANNEXES}series.sweep_grid:points_of",
        "judge_set": f"{_ANNEXES}series.run_set:judge_set",
        "campaign_sets": f"{_ANNEXES}series.run_set:campaign_sets",
        "trace_line_writer": f"{_ANNEXES}exports.perfetto:trace_line_writer",
    },
}
"""PluginKind → name → `module:attribute`."""


@cache
def installed(kind: PluginKind) -> Mapping[str, EntryPoint]:
    """Entry points of other distributions by name, without those that have the name of a built-in; read once.

    Raises:
        HostError: two of them have the same name.
    """
    from importlib.metadata import entry_points  # loads 30 modules, which most commands do not need

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
