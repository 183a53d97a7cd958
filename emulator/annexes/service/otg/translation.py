"""A configuration of Open Traffic Generator as run specs: a run for each stage, a job for each communicator."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

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
from emulator.schema import SchemaProblem

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
