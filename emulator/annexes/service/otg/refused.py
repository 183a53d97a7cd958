"""Fields of Open Traffic Generator's model that do not arrive in a run: each is refused by its path, with the reason.

A value that asks for what is played anyway passes: usually the default, which generated clients write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from emulator.annexes.service.model import Refusal
from emulator.annexes.service.otg.model import Config, Plain
from emulator.schema import SchemaProblem, decode, format_path

T = TypeVar("T")


class Refused(NamedTuple):
    """Why a field is refused, and the one value that passes; None: none does."""

    why: str
    only: Any = None


_ADDRESSES = Refused("addresses and interfaces are those of the device's topology: a name says which host a rank is on")
_PACKETS = Refused("the run spec sets how background traffic looks: only name, tx_rx and rate arrive")
_DEVICES_ONLY = Refused("a flow is between devices")
_COMMUNICATOR = "ccl.stages[].communicators[]"
_CONNECTION = f"{_COMMUNICATOR}.rocev2.connection_type"
REFUSED: Mapping[str, Refused] = {
    "*": Refused("only devices, flows and ccl arrive in a run; what else a run needs is set for the device"),
    "devices[].*": _ADDRESSES,
    "flows[].*": _PACKETS,
    "flows[].duration.choice": Refused("a flow lasts as long as its stage", "continuous"),
    "flows[].duration.*": Refused("a flow lasts as long as its stage"),
    "flows[].tx_rx.port": _DEVICES_ONLY,
    "flows[].rate.pps": Refused("give bits per second, or a percentage"),
    "ccl.sync_rank_interval_ms": Refused("all ranks begin together", 0),
    "ccl.stage_mode": Refused("stages are played in their order", "sequential"),
    "ccl.llm_index": Refused("stages are played in their order", 1),
    "ccl.tail_latency_recording.enable": Refused("transfers are not recorded for these metrics", False),
    "ccl.tail_latency_recording.top_by": Refused("transfers are not recorded", "transmission_time_us"),
    "ccl.tail_latency_recording.max_record_count": Refused("transfers are not recorded", 50),
    "ccl.tail_latency_cdf.enable": Refused("its share of the ideal time is not known", False),
    "ccl.stages[].duration.fixed_seconds": Refused("write fixed_iterations"),
    f"{_COMMUNICATOR}.generation.compute_gap.random": Refused("there is no time between iterations"),
    f"{_COMMUNICATOR}.generation.qp_scheduling": Refused(
        "queue pairs of a rank take turns as the tester schedules them"
    ),
    f"{_CONNECTION}.unreliable_datagram": Refused("queue pairs are reliable connections"),
    f"{_CONNECTION}.reliable_connection.start_qp_number": Refused("the tester numbers its queue pairs", 0),
    f"{_CONNECTION}.reliable_connection.start_udp_src_port": Refused(
        "source ports are folded from queue pair numbers, within 49152 to 65535", 49_152
    ),
    "ccl.include_loop_metrics": Refused("loops are summed", False),
}
"""By path; `[]` is any index, `*` every field of its level that the model here does not have."""
_CONTAINERS = ("ccl.tail_latency_recording", "ccl.tail_latency_cdf", "flows[].duration")
"""Have only fields that are refused."""
_INDEX = re.compile(r"\[\d+\]")
_UNKNOWN = re.compile(r"unknown key '(.+?)'")


def arrived(document: Any, kind: type[T]) -> T:
    """A document as its type.

    Args:
        document: from JSON.
        kind: of `model`.

    Raises:
        Refusal: a field does not arrive, is unknown, or does not fit; with its path.
    """
    try:
        return decode(_without_refused(document, ()), kind, is_text=True)  # 64-bit numbers are texts in JSON
    except SchemaProblem as problem:
        raise Refusal(_rest_of(problem) if kind is Config else str(problem)) from problem
    except RecursionError as error:
        raise Refusal("the document is nested too deeply") from error


def _without_refused(value: Any, path: tuple[str | int, ...]) -> Any:
    if isinstance(value, list):
        return [_without_refused(one, (*path, index)) for index, one in enumerate(value)]
    return dict(_passed(value, path)) if isinstance(value, dict) else value


def _passed(value: Plain, path: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:
    for name, one in value.items():
        here = (*path, str(name))
        refused = REFUSED.get(_pattern(here))
        if refused is not None:
            if refused.only is None or type(one) is not type(refused.only) or one != refused.only:
                passes = "" if refused.only is None else f"; only {refused.only!r} passes"
                raise Refusal(f"{format_path(here)}: {refused.why}{passes}")
        elif _pattern(here) in _CONTAINERS and isinstance(one, dict):
            if left := next(iter(dict(_passed(one, here))), None):
                rest = REFUSED.get(f"{_pattern(here)}.*")
                raise Refusal(f"{format_path((*here, left))}: {rest.why if rest else 'unknown key'}")
        else:
            yield name, _without_refused(one, here)


def _rest_of(problem: SchemaProblem) -> str:
    """A problem; if it is a field that its level does not have, with the reason for all such fields."""
    unknown = _UNKNOWN.match(problem.problem)
    level = _pattern(problem.path)
    refused = REFUSED.get(f"{level}.*" if level else "*")
    if unknown is None or refused is None:
        return str(problem)
    return f"{format_path((*problem.path, unknown[1]))}: {refused.why}"


def _pattern(path: tuple[str | int, ...]) -> str:
    return _INDEX.sub("[]", format_path(path))
