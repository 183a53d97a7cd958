"""A configuration of Open Traffic Generator as run specs: a run for each stage, a job for each communicator."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from emulator.annexes.service.model import Refusal
from emulator.annexes.service.otg.model import (
    MOST_RUNS,
    Communicator,
    Config,
    OtgAlgorithm,
    OtgFlow,
    Plain,
    Rocev2Policy,
    Stage,
)
from emulator.experiment.spec.parts import build_experiment
from emulator.experiment.spec.spec import Experiment
from emulator.schema import SchemaProblem, decode, format_path

_ALGORITHMS = {
    ("ring_allreduce", "allreduce"): ("all_reduce", "ring"),
    ("ring_allreduce", "reduce_scatter"): ("reduce_scatter", "ring"),
    ("ring_allreduce", "all_gather"): ("all_gather", "ring"),
    ("halving_doubling", "allreduce"): ("all_reduce", "halving_doubling"),
    ("halving_doubling", "reduce_scatter"): ("reduce_scatter", "halving_doubling"),
    ("halving_doubling", "all_gather"): ("all_gather", "halving_doubling"),
    ("dual_tree", "allreduce"): ("all_reduce", "double_binary_tree"),
    ("all_to_all_direct", "allreduce"): ("all_to_all", "parallel"),
}
"""(choice, phase) → (collective, algorithm), see docs/collectives.md."""
_PACES = {"async": "continuous", "sync": "barrier"}
_ECN = {"non_ect": "off", "ect_1": "ect1", "ect_0": "ect0"}
_UNLIMITED_KB = 4_194_304
"""Upstream: "equivalent to no limit"."""


@dataclass(frozen=True, slots=True)
class StageRun:
    """A stage and the run that plays it."""

    stage: Stage
    experiment: Experiment


def stage_runs(config: Config, *, topology: str | None) -> list[StageRun]:
    """The runs of one pass through the stages, in their order.

    Args:
        config: the configuration.
        topology: of the device; None: loopback, where names of devices are free.

    Raises:
        Refusal: names that are not unique or not there, or what a run cannot be; with the path.
    """
    _check_names(config)
    flows = {flow.name: flow for flow in config.flows}
    if flows and topology is None:
        raise Refusal("flows: background traffic needs a device with a topology")
    return [
        StageRun(stage, _experiment(config, stage, f"ccl.stages[{index}]", flows=flows, topology=topology))
        for index, stage in enumerate(config.ccl.stages)
    ]


def _check_names(config: Config) -> None:
    ccl, devices = config.ccl, [one.name for one in config.devices]
    _require_unique("devices", devices)
    _require_unique("flows", [one.name for one in config.flows])
    _require_unique("ccl.stages", [one.name for one in ccl.stages])
    if len(ccl.stages) * ccl.stage_loop_count > MOST_RUNS:
        raise Refusal(f"ccl.stage_loop_count: stages times loops are more than {MOST_RUNS} runs")
    used = {name for stage in ccl.stages for name in stage.bg_flow_names}
    if unused := next((one.name for one in config.flows if one.name not in used), None):
        raise Refusal(f"flows: no stage names {unused!r} in bg_flow_names, so it would never be sent")
    for index, flow in enumerate(config.flows):
        for field, names in (("tx_names", flow.tx_rx.device.tx_names), ("rx_names", flow.tx_rx.device.rx_names)):
            _require_known(f"flows[{index}].tx_rx.device.{field}", names, devices)
    for index, stage in enumerate(ccl.stages):
        path = f"ccl.stages[{index}]"
        _require_unique(f"{path}.communicators", [one.name for one in stage.communicators])
        _require_known(f"{path}.bg_flow_names", stage.bg_flow_names, [one.name for one in config.flows])
        for number, one in enumerate(stage.communicators):
            _require_known(f"{path}.communicators[{number}].device_names", one.device_names, devices)


def _require_unique(path: str, names: Collection[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise Refusal(f"{path}: {name!r} is given twice")
        seen.add(name)


def _require_known(path: str, names: Collection[str], known: Collection[str]) -> None:
    _require_unique(path, names)
    if missing := next((name for name in names if name not in known), None):
        raise Refusal(f"{path}: {missing!r} is not configured")


def _experiment(
    config: Config, stage: Stage, path: str, *, flows: Mapping[str, OtgFlow], topology: str | None
) -> Experiment:
    jobs = [
        _job(one, stage, f"{path}.communicators[{number}]", pace=_PACES[config.ccl.send_mode], is_placed=bool(topology))
        for number, one in enumerate(stage.communicators)
    ]
    part = {"jobs": jobs, "network": {} if topology is None else {"topology": topology}}
    part["background"] = [_background(flows[name]) for name in stage.bg_flow_names]
    try:
        return build_experiment(part)
    except SchemaProblem as problem:
        raise Refusal(f"{path}: as a run spec: {problem}") from problem


def _job(one: Communicator, stage: Stage, path: str, *, pace: str, is_placed: bool) -> Plain:
    collective, algorithm = _algorithm(one.algorithm or stage.algorithm, path)
    return {
        "name": one.name,
        "sweep": {"collective": collective, "ranks": len(one.device_names), "sizes": [one.generation.size_bytes]},
        "algorithms": {collective: algorithm},
        "iterations": stage.duration.fixed_iterations.count,
        "warmup": 0,
        "pace": pace,
        "transport": {"name": "roce"} if one.rocev2 is None else _transport(one.rocev2),
        **({"hosts": one.device_names} if is_placed else {}),
    }


def _algorithm(asked: OtgAlgorithm, path: str) -> tuple[str, str]:
    found = _ALGORITHMS.get((asked.choice, asked.phase))
    if found is None:
        raise Refusal(f"{path}.algorithm: there is no phase {asked.phase} of {asked.choice}")
    return found


def _transport(policy: Rocev2Policy) -> Plain:
    limit = {} if policy.chunk_size_kb == _UNLIMITED_KB else {"message_bytes": policy.chunk_size_kb << 10}
    return {"name": "roce", "options": dict(_options(policy)), **limit}


def _options(policy: Rocev2Policy) -> Iterator[tuple[str, str | int]]:
    yield "qps", policy.qps_per_peer
    yield "path_mtu", policy.ib_mtu
    connection = None if policy.connection_type is None else policy.connection_type.reliable_connection
    if connection is not None:
        yield "dscp", connection.dscp
        yield "ecn", _ECN[connection.ecn]


def _background(flow: OtgFlow) -> Plain:
    ends = flow.tx_rx.device
    return {
        "name": flow.name,
        "from": ends.tx_names,
        "to": ends.rx_names,
        "rate": flow.rate.text,
        "pattern": "constant",
    }


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
