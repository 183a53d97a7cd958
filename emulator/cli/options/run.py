"""The options of every command that plays or plans a run, as parts of a run spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from emulator.cli.options.converters import LARGEST_SEED, whole
from emulator.cli.options.table import Option, OptionGroup
from emulator.experiment.spec.background_spec import parse_background
from emulator.experiment.spec.spec import (
    AUTO,
    WORST,
    parse_compute,
    parse_factor,
    parse_message_bytes,
    parse_names,
    parse_ratio,
    parse_start,
)
from emulator.roce.options import OPTIONS as ROCE_OPTIONS
from emulator.roce.options import RoceOptions, check_option, spelled
from emulator.trace.meaning.collective_names import parse_class_name
from emulator.transports.registry import DEFAULT_TRANSPORT, LISTED, REGISTRY, TRANSPORTS
from emulator.transports.verbs_options import VERBS_OPTIONS, VerbsOptions
from emulator.units import format_size, parse_number, parse_size

SHORTEST_PERIOD_S, LONGEST_PERIOD_S = 0.02, 3600.0
_MESSAGE_SIZES = ", ".join(f"{format_size(one.message_bytes)} with {one.name}" for one in REGISTRY.values())
_seconds = partial(parse_number, unit="seconds")
_period = partial(parse_number, unit="seconds", least=SHORTEST_PERIOD_S, most=LONGEST_PERIOD_S)


def _on_off(text: str) -> bool:
    return text == "on"


def _factor(text: str) -> str:
    return str(parse_factor(text))


def _repeat(text: str) -> int | str:
    return AUTO if text == AUTO else whole(1, most=999)(text)


def _steps(text: str) -> int | str:
    if text == WORST:
        return WORST
    if not text.isdecimal():
        raise ValueError(f"{text[:40]!r}: write worst, or a whole number of at least 1")
    return whole(1)(text)


def _sizes(text: str) -> list[int]:
    return [parse_size(one) for one in text.split(",")]


def _size_or_list(text: str) -> int | list[int]:
    return _sizes(text) if "," in text else parse_size(text)


def trace_argument(*, is_optional: bool = False) -> Option:
    """TRACE."""
    text = "a folder, a prefix of <prefix>.<rank>.et, or one file"
    return Option("TRACE", "job.trace.path", text, metavar="TRACE", nargs="?" if is_optional else None)


def source_argument() -> Option:
    """SRC: the trace that a command makes another one of."""
    return Option("SRC", "job.trace.path", "a trace, as in `charkha run`", metavar="SRC")


def parse_job(text: str) -> dict[str, Any]:
    """A job as `NAME=TRACE[,KEY=VALUE…]`, as the part of a run spec.

    Raises:
        ValueError: not such a text, or a key that is not known or there twice.
    """
    head, *rest = text.split(",")
    name, equals, path = head.partition("=")
    if not (name and equals and path):
        raise ValueError(f"{text[:60]!r}: write NAME=TRACE, for example a=traces/llama-64r,start=3ms")
    job: dict[str, Any] = {"name": name, "trace": {"path": path}}
    for one in rest:
        key, equals, value = one.partition("=")
        if not equals or key not in _JOB_KEYS:
            raise ValueError(f"{one[:60]!r}: write one of {', '.join(f'{known}=' for known in _JOB_KEYS)}")
        section = job["trace"] if key == "ranks" else job
        if key in section:
            raise ValueError(f"{key}= is given twice")
        section[key] = _JOB_KEYS[key](value)
    return job


_JOB_KEYS: Mapping[str, Callable[[str], Any]] = {
    "ranks": whole(1),
    "hosts": lambda text: text if "/" in text else text.split("+"),
    "start": parse_start,
    "until": str,
    "iterations": whole(1),
    "warmup": whole(0),
    "pace": str,
}
"""Keys of `--job` besides the trace."""


TRACE = OptionGroup(
    "trace",
    (
        Option("--groups", "job.trace.groups", 'process groups: JSON {"1": [0, 1], …}', metavar="FILE"),
        Option("--ranks", "job.trace.ranks", "number of ranks that the trace must have", metavar="N", read=whole(1)),
        Option("--lenient", "job.trace.lenient", "drop dependencies on missing nodes", constant=True),
        Option("--strict", "job.trace.strict", "refuse an import that needs guesses", constant=True),
        Option(
            "--element-bytes",
            "job.trace.element_bytes",
            "comm_size in the trace counts elements of N bytes",
            metavar="N",
            read=whole(1),
        ),
        Option(
            "--scale-bytes",
            "job.trace.scale_bytes",
            "multiply every payload by F, for example 1/64",
            metavar="F",
            read=_factor,
        ),
    ),
)
SWEEP = OptionGroup(
    "",
    (
        Option(
            "COLLECTIVE",
            "job.sweep.collective",
            "all_reduce, all_gather, all_to_all, reduce_scatter, broadcast …",
            metavar="COLLECTIVE",
            read=parse_class_name,
        ),
        Option(
            "-n --ranks",
            "job.sweep.ranks",
            "number of ranks (for -n of nccl-tests, use --iterations)",
            metavar="RANKS",
            read=whole(1),
            is_required=True,
            is_common=True,
        ),
        Option(
            "-b --min-bytes",
            "job.sweep.min_bytes",
            "smallest size, or a list: 1K,4K,1M (default: 1K)",
            metavar="MIN",
            read=_size_or_list,
            is_common=True,
        ),
        Option(
            "-e --max-bytes",
            "job.sweep.max_bytes",
            "largest size (default: 64M)",
            metavar="MAX",
            read=parse_size,
            is_common=True,
        ),
        Option(
            "-f --factor",
            "job.sweep.factor",
            "ratio of each size to the previous one (default: 2)",
            metavar="FACTOR",
            read=parse_ratio,
            is_common=True,
        ),
        Option(
            "-i --step-bytes",
            "job.sweep.step_bytes",
            "fixed step in bytes, instead of a factor",
            metavar="STEP",
            read=parse_size,
        ),
        Option("--sizes", "job.sweep.sizes", "all sizes, as -b 1K,4K,1M", metavar="LIST", read=_sizes),
    ),
)
JOBS = OptionGroup(
    "several jobs at once",
    (
        Option(
            "--job",
            "jobs",
            "play this trace alongside others (repeatable); with ranks=N, hosts=A+B, start=3ms,"
            " until=others, iterations=N, warmup=N, pace=continuous",
            metavar="NAME=TRACE[,…]",
            read=parse_job,
            is_list=True,
        ),
        Option(
            "--pace",
            "job.pace",
            "ranks start an iteration together, or each once it has completed the previous one (default: barrier)",
            metavar="barrier|continuous",
            choices=("barrier", "continuous"),
        ),
    ),
)
NETWORK = (
    Option(
        "--topology",
        "network.topology",
        "hosts, addresses, switches, rates (default: loopback)",
        metavar="FILE",
        is_common=True,
    ),
    Option(
        "--allow-network",
        "network.allow_networks",
        "let the topology use addresses of this prefix, for example 192.0.2.0/24",
        metavar="PREFIX",
        is_list=True,
    ),
    Option(
        "--transport",
        "network.transport.name",
        f"{LISTED} (default: the topology's, else {DEFAULT_TRANSPORT})",
        metavar="NAME",
        choices=TRANSPORTS,
        is_common=True,
    ),
    Option(
        "--message-bytes",
        "network.transport.message_bytes",
        f"largest message into which payload is cut (default: {_MESSAGE_SIZES})",
        metavar="SIZE",
        read=parse_message_bytes,
    ),
)
ALGORITHM = Option(
    "--algorithm",
    "job.algorithms",
    "algorithm: all_reduce=ring, or all_reduce=FILE.xml (repeatable)",
    metavar="KIND=NAME",
    is_mapping=True,
    is_common=True,
)
ONLY = ""
"""Name of the only collective, in a command that has one."""
ALGORITHM_OF_ONE = replace(
    ALGORITHM, help="algorithm of the collective: ring, or FILE.xml", metavar="NAME", lone_name=ONLY
)
MTU = Option(
    "--mtu",
    "network.mtu",
    "MTU to assume, bytes (default: the links', else 1500)",
    metavar="N",
    read=whole(576, most=65_535),
)
COMPUTE = Option(
    "--compute",
    "job.compute",
    "replay recorded compute time, skip it, or multiply it (default: replay)",
    metavar="replay|skip|FACTOR",
    read=parse_compute,
)
CONNECTION = OptionGroup(
    "agents on other machines",
    (
        Option("--listen", "agents.listen", "address for the agents in the topology's `agents`", metavar="HOST:PORT"),
        Option(
            "--join-timeout",
            "agents.join_timeout_s",
            "wait this long for agents to connect (default: 60)",
            metavar="S",
            read=_seconds,
        ),
        Option(
            "--token-file",
            "agents.token_file",
            "secret that agents must present (default: CHARKHA_TOKEN)",
            metavar="FILE",
        ),
        Option(
            "--identity",
            "agents.identity",
            "the controller's identity, from `charkha agent certs issue`",
            metavar="FILE",
        ),
        Option("--insecure", "agents.insecure", "allow remote control connections without certificates", constant=True),
        Option("--tls-cert", "agents.tls_cert", "own certificate, PEM; encrypts control connections", metavar="FILE"),
        Option("--tls-key", "agents.tls_key", "key of the certificate, PEM", metavar="FILE"),
        Option("--tls-ca", "agents.tls_ca", "authority of the other side's certificate, PEM", metavar="FILE"),
    ),
)
_DUT = OptionGroup(
    "device under test",
    (
        Option(
            "--profile",
            "device.profile",
            "firmware profile of the lab's switches, for example fw-b",
            metavar="NAME|FILE",
            is_common=True,
        ),
        Option(
            "--counters-every",
            "device.counters_every_s",
            "period between readings of the device's counters (default: 1)",
            metavar="S",
            read=_period,
        ),
    ),
)
_CAMPAIGN = OptionGroup(
    "repeat (for charkha compare)",
    (
        Option(
            "--repeat",
            "campaign.repeat",
            "make N runs, each in a folder below --out; auto: as many as the classes need (4 for one, 6 for 23)",
            metavar="N|auto",
            read=_repeat,
        ),
        Option(
            "--profiles",
            "campaign.profiles",
            "alternate between firmware profiles, A B A B, with a folder each (default of --repeat: auto)",
            metavar="A,B",
            read=parse_names,
        ),
    ),
)


def roce_option(field: str) -> Option:
    """The option that sets a field of RoceOptions."""
    one = ROCE_OPTIONS[field]
    return Option(
        f"--{spelled(field)}",
        f"network.transport.options.{field}",
        one.text(field, RoceOptions()),
        metavar=one.metavar or None,
        choices=one.choices,
        read=str if one.choices else partial(check_option, field),
    )


_ROCE = OptionGroup("RoCE transport", tuple(map(roce_option, ROCE_OPTIONS)))
_VERBS = OptionGroup(
    "verbs transport",
    tuple(
        Option(
            f"--{spelled(field)}",
            f"network.transport.options.{field}",
            one.text(field, VerbsOptions()),
            metavar=one.metavar,
            read=partial(check_option, field, kind=VerbsOptions),
        )
        for field, one in VERBS_OPTIONS.items()
        if field not in ROCE_OPTIONS
    ),
)
_OBSERVE = OptionGroup(
    "report and telemetry",
    (
        Option("--no-report", "observe.report", "do not write report.html", constant=False),
        Option(
            "--mqtt",
            "observe.mqtt",
            "publish the run: mqtt://[USER@]HOST[:PORT][/PREFIX]; password in CHARKHA_MQTT_PASSWORD",
            metavar="URL",
        ),
        Option(
            "--metrics",
            "observe.metrics",
            "serve Prometheus metrics (default host: 127.0.0.1)",
            metavar="[HOST:]PORT",
        ),
        Option(
            "--calibration",
            "observe.calibration",
            "from `charkha agent calibrate` (default: the one of this host)",
            metavar="FILE",
        ),
        Option(
            "--expect",
            "observe.expect",
            "rules to judge the run by: a file, or `example`",
            metavar="RULES",
            is_common=True,
        ),
        Option(
            "--record-steps",
            "observe.record_steps",
            "record every transfer of the slowest instance of each class, or of every Nth instance",
            metavar="worst|N",
            read=_steps,
        ),
    ),
)


def play_groups(*, iterations: int, warmup: int, algorithm: Option = ALGORITHM) -> list[OptionGroup]:
    """Everything that playing takes, for jobs of every kind.

    Args:
        iterations, warmup: the defaults, for the help.
        algorithm: the option for it.
    """
    play = (
        *NETWORK,
        Option(
            "--iterations",
            "job.iterations",
            f"measured iterations (default: {iterations})",
            metavar="N",
            read=whole(1),
            is_common=True,
        ),
        Option(
            "-w --warmup",
            "job.warmup",
            f"warm-up iterations, not measured (default: {warmup})",
            metavar="N",
            read=whole(0),
        ),
        algorithm,
        Option("--agents", "agents.count", "agent processes (default: one per core)", metavar="N", read=whole(1)),
        Option("--credits", "job.credits", "receiver-ready credits (default: on)", choices=("on", "off"), read=_on_off),
        Option(
            "--timeout",
            "timeout_s",
            "give up after this long without progress (default: 60)",
            metavar="S",
            read=_seconds,
        ),
        Option("--seed", "seed", "random seed (default: 0)", metavar="N", read=whole(0, most=LARGEST_SEED)),
        Option(
            "--background",
            "background",
            "background traffic, for example from=h0,to=h1,rate=1Gbit,sizes=web-search (repeatable)",
            metavar="KEY=VALUE,…",
            read=parse_background,
            is_list=True,
        ),
        Option("--lab", "network.lab", "the lab, if the topology has several", metavar="ID"),
    )
    return [OptionGroup("play", play), CONNECTION, _DUT, _CAMPAIGN, _ROCE, _VERBS, _OBSERVE]
