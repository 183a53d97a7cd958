"""The options of every command that plays or plans a run, as parts of a run spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emulator.cli.options.converters import whole
from emulator.cli.options.table import Option, OptionGroup
from emulator.errors import PlanError
from emulator.experiment.spec import (
    AUTO,
    COLLECTIVES,
    LARGEST_SEED,
    parse_compute,
    parse_factor,
    parse_message_bytes,
)
from emulator.roce.option_help import OPTIONS as ROCE_HELP
from emulator.roce.options import RoceOptions, spelled
from emulator.transports.registry import DEFAULT_TRANSPORT, REGISTRY, TRANSPORTS
from emulator.units import format_size, parse_size

SHORTEST_PERIOD_S, LONGEST_PERIOD_S = 0.02, 3600.0


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise ValueError(f"{text!r}: seconds are needed") from error
    if not 0 < value < float("inf"):
        raise ValueError(f"{text!r}: seconds above 0 are needed")
    return value


def _period(text: str) -> float:
    value = _seconds(text)
    if not SHORTEST_PERIOD_S <= value <= LONGEST_PERIOD_S:
        raise ValueError(f"{text!r}: from {SHORTEST_PERIOD_S:g} to {LONGEST_PERIOD_S:g} seconds")
    return value


def _on_off(text: str) -> bool:
    return text == "on"


def _repeat(text: str) -> int | str:
    return AUTO if text == AUTO else whole(1, most=999)(text)


def _profiles(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ValueError(f"{text!r}: profiles are needed with commas between them, as fw-a,fw-b")
    return names


def _roce(field: str) -> Callable[[str], Any]:
    """Checks the value of a RoCE option; it stays text."""

    def read(text: str) -> str:
        try:
            RoceOptions.parse({field: text})
        except PlanError as error:
            raise ValueError(str(error).partition(" ")[2]) from error
        return text

    return read


_MESSAGE_SIZES = ", ".join(f"{format_size(one.message_bytes)} with {one.name}" for one in REGISTRY.values())

TRACE = OptionGroup(
    "trace",
    (
        Option(
            flags=("--groups",), path="job.trace.groups", metavar="FILE", help='process groups: JSON {"1": [0, 1], …}'
        ),
        Option(
            flags=("--ranks",), path="job.trace.ranks", metavar="N", read=whole(1), help="number of ranks in the trace"
        ),
        Option(
            flags=("--lenient",), path="job.trace.lenient", constant=True, help="drop dependencies on missing nodes"
        ),
        Option(
            flags=("--element-bytes",),
            path="job.trace.element_bytes",
            metavar="N",
            read=whole(1),
            help="comm_size in the trace counts elements of N bytes",
        ),
        Option(
            flags=("--scale-bytes",),
            path="job.trace.scale_bytes",
            metavar="F",
            read=lambda text: str(parse_factor(text)),
            help="multiply every payload by F, for example 1/64",
        ),
    ),
)


def trace_argument(*, is_optional: bool = False) -> Option:
    """TRACE."""
    return Option(
        flags=("TRACE",),
        path="job.trace.path",
        metavar="TRACE",
        help="a folder, a prefix of <prefix>.<rank>.et, or one file",
        nargs="?" if is_optional else None,
    )


SWEEP = OptionGroup(
    "",
    (
        Option(
            flags=("COLLECTIVE",),
            path="job.sweep.collective",
            metavar="COLLECTIVE",
            choices=tuple(sorted(COLLECTIVES)),
            help=", ".join(COLLECTIVES),
        ),
        Option(
            flags=("-n", "--ranks"),
            path="job.sweep.ranks",
            metavar="RANKS",
            read=whole(1),
            help="number of ranks in the group",
            is_required=True,
            is_common=True,
        ),
        Option(
            flags=("-b", "--min-bytes"),
            path="job.sweep.min_bytes",
            metavar="MIN",
            read=parse_size,
            help="smallest size (default: 1K)",
            is_common=True,
        ),
        Option(
            flags=("-e", "--max-bytes"),
            path="job.sweep.max_bytes",
            metavar="MAX",
            read=parse_size,
            help="largest size (default: 64M)",
            is_common=True,
        ),
        Option(
            flags=("-f", "--factor"),
            path="job.sweep.factor",
            metavar="FACTOR",
            read=whole(2),
            help="ratio of one size to the one before (default: 2)",
            is_common=True,
        ),
    ),
)

NETWORK = (
    Option(
        flags=("--topology",),
        path="network.topology",
        metavar="FILE",
        help="hosts, addresses, switches, rates (default: loopback)",
        is_common=True,
    ),
    Option(
        flags=("--allow-network",),
        path="network.allow_networks",
        metavar="PREFIX",
        is_list=True,
        help="let the topology use addresses of this prefix, for example 192.0.2.0/24",
    ),
    Option(
        flags=("--transport",),
        path="network.transport.name",
        metavar="NAME",
        choices=TRANSPORTS,
        help=f"{' or '.join(TRANSPORTS)} (default: the topology's, else {DEFAULT_TRANSPORT})",
        is_common=True,
    ),
    Option(
        flags=("--message-bytes",),
        path="network.transport.message_bytes",
        metavar="SIZE",
        read=parse_message_bytes,
        help=f"largest message that payload is cut into (default: {_MESSAGE_SIZES})",
    ),
)
ALGORITHM = Option(
    flags=("--algorithm",),
    path="job.algorithms",
    metavar="KIND=NAME",
    is_mapping=True,
    help="algorithm of a collective, for example all_reduce=ring (repeatable)",
    is_common=True,
)
MTU = Option(
    flags=("--mtu",),
    path="network.mtu",
    metavar="N",
    read=whole(576, most=65_535),
    help="MTU to assume, bytes (default: the links', else 1500)",
)
CONNECTION = OptionGroup(
    "agents on other machines",
    (
        Option(
            flags=("--listen",),
            path="agents.listen",
            metavar="HOST:PORT",
            help="address where agents of the topology's `agents` connect",
        ),
        Option(
            flags=("--join-timeout",),
            path="agents.join_timeout_s",
            metavar="S",
            read=_seconds,
            help="give up on an agent that has not connected by then (default: 60)",
        ),
        Option(
            flags=("--token-file",),
            path="agents.token_file",
            metavar="FILE",
            help="secret that agents must present (default: CHARKHA_TOKEN)",
        ),
        Option(
            flags=("--tls-cert",), path="agents.tls_cert", metavar="FILE", help="own certificate, PEM; encrypts control"
        ),
        Option(flags=("--tls-key",), path="agents.tls_key", metavar="FILE", help="key of the certificate, PEM"),
        Option(
            flags=("--tls-ca",),
            path="agents.tls_ca",
            metavar="FILE",
            help="authority that must have issued the other side's certificate, PEM",
        ),
    ),
)
CALIBRATION = Option(
    flags=("--calibration",),
    path="observe.calibration",
    metavar="FILE",
    help="from `charkha calibrate` (default: the one of this host)",
)


def play_groups(*, iterations: int, warmup: int) -> list[OptionGroup]:
    """Everything that playing takes, for jobs of every kind.

    Args:
        iterations, warmup: the defaults, for the help.
    """
    play = (
        *NETWORK,
        Option(
            flags=("--iterations",),
            path="job.iterations",
            metavar="N",
            read=whole(1),
            help=f"measured iterations (default: {iterations})",
            is_common=True,
        ),
        Option(
            flags=("--warmup",),
            path="job.warmup",
            metavar="N",
            read=whole(0),
            help=f"iterations before them that are not counted (default: {warmup})",
        ),
        ALGORITHM,
        Option(
            flags=("--agents",),
            path="agents.count",
            metavar="N",
            read=whole(1),
            help="agent processes (default: one per core)",
        ),
        Option(
            flags=("--credits",),
            path="job.credits",
            choices=("on", "off"),
            read=_on_off,
            help="receiver-ready credits (default: on)",
        ),
        Option(
            flags=("--timeout",),
            path="timeout_s",
            metavar="S",
            read=_seconds,
            help="give up when nothing moves for this long (default: 60)",
        ),
        Option(
            flags=("--seed",),
            path="seed",
            metavar="N",
            read=whole(0, most=LARGEST_SEED),
            help="random seed (default: 0)",
        ),
        Option(
            flags=("--lab",),
            path="network.lab",
            metavar="ID",
            help="lab to play in, if several belong to the topology",
        ),
        CALIBRATION,
    )
    return [OptionGroup("play", play), CONNECTION, _DUT, _REPEAT, _ROCE, _OBSERVE]


COMPUTE = OptionGroup(
    "compute",
    (
        Option(
            flags=("--compute",),
            path="job.compute",
            metavar="replay|skip|FACTOR",
            read=parse_compute,
            help="take compute time as recorded, skip it, or multiply it (default: replay)",
        ),
    ),
)
_DUT = OptionGroup(
    "device under test",
    (
        Option(
            flags=("--profile",),
            path="device.profile",
            metavar="NAME|FILE",
            help="firmware profile of the lab's switches, for example fw-b",
            is_common=True,
        ),
        Option(
            flags=("--counters-every",),
            path="device.counters_every_s",
            metavar="S",
            read=_period,
            help="period between readings of the device's counters (default: 1)",
        ),
    ),
)
_REPEAT = OptionGroup(
    "repeat (for charkha compare)",
    (
        Option(
            flags=("--repeat",),
            path="campaign.repeat",
            metavar="N|auto",
            read=_repeat,
            help="make N runs for `charkha compare`; auto: as many as it needs",
        ),
        Option(
            flags=("--profiles",),
            path="campaign.profiles",
            metavar="A,B",
            read=_profiles,
            help="firmware profiles that take turns, A B A B, in a folder each (default of --repeat: auto)",
        ),
    ),
)
_ROCE = OptionGroup(
    "RoCE transport",
    tuple(
        Option(
            flags=(f"--{spelled(field)}",),
            path=f"network.transport.options.{field}",
            metavar=one.metavar or None,
            choices=one.choices,
            read=str if one.choices else _roce(field),
            help=one.text(field),
        )
        for field, one in ROCE_HELP.items()
    ),
)
_OBSERVE = OptionGroup(
    "report and telemetry",
    (
        Option(flags=("--no-report",), path="observe.report", constant=False, help="do not write report.html"),
        Option(
            flags=("--mqtt",),
            path="observe.mqtt",
            metavar="URL",
            help="publish the run: mqtt://[USER@]HOST[:PORT][/PREFIX]; password in CHARKHA_MQTT_PASSWORD",
        ),
        Option(
            flags=("--metrics",),
            path="observe.metrics",
            metavar="[HOST:]PORT",
            help="serve Prometheus metrics (default host: 127.0.0.1)",
        ),
    ),
)
