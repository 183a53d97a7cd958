"""What a client of Open Traffic Generator drives on one device: a configuration, its runs, their metrics.

It is kept in memory: after a restart of the service the client sets its configuration again. Runs stay in the history.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import hdrs, web

from emulator.annexes.service import model
from emulator.annexes.service.http import Handler, Routes, object_of, user
from emulator.annexes.service.model import Refusal, Role, Run, State, User
from emulator.annexes.service.otg.measured import COLUMNS, Measured
from emulator.annexes.service.otg.model import (
    MODEL_VERSION,
    CclRequest,
    Communicator,
    Config,
    ControlState,
    MetricsRequest,
    Plain,
)
from emulator.annexes.service.otg.translation import StageRun, arrived, stage_runs
from emulator.annexes.service.queues import STOP_S
from emulator.annexes.service.service import Service
from emulator.errors import EmulatorError
from emulator.experiment.spec.document import to_yaml
from emulator.experiment.spec.spec import Experiment
from emulator.topology.load import load_topology
from emulator.topology.model import Topology, default_loopback
from emulator.version import VERSION

EXPERIMENTAL = "experimental: the model of collective communication is proposed upstream, not released, and may change"
_STOP_S = STOP_S + 10
"""How long a client that stops waits for the end; a run that does not end is killed before."""
_NAMES = ("communicator_name", "stage_name", "stage_index")


@dataclass(slots=True)
class _Driven:
    """A configuration, its stages, and for each stage a run per loop once it has been started."""

    document: Plain
    config: Config
    stages: Sequence[StageRun]
    runs: list[list[int]] = field(default_factory=list)


class Driving:
    """What each user drives on each device."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._driven: dict[tuple[str, str], _Driven] = {}

    async def set_config(self, user: User, dut: str, document: Any) -> Plain:
        """Take a configuration in place of the one before; nothing plays yet.

        Raises:
            InputError: it cannot be played, or the one before is still playing.
        """
        topologies = self._service.store.dut(dut).topologies
        if len(topologies) > 1:
            raise Refusal(f"{dut} has several topologies: this interface needs a device with one, or with none")
        self._refuse_playing(user, dut)
        config = arrived(document, Config)
        stages = stage_runs(config, topology=next(iter(topologies), None))
        for index, one in enumerate(stages):
            spec = to_yaml(one.experiment)
            if len(spec) > model.LARGEST_SPEC_BYTES:
                raise Refusal(f"ccl.stages[{index}]: its run spec is larger than {model.LARGEST_SPEC_BYTES} bytes")
            found = await self._service.read_spec(dut, spec)
            await asyncio.to_thread(check_places, one, found.experiment, f"ccl.stages[{index}]")
        self._driven[user.name, dut] = _Driven(document, config, stages)
        return {"warnings": [EXPERIMENTAL]}

    async def get_config(self, user: User, dut: str) -> Plain:
        """The configuration as it was set."""
        return self._of(user, dut).document

    async def set_control_state(self, user: User, dut: str, document: Any) -> Plain:
        """Put the runs into the queue of the device, in the order of the stages; or take them off it, and end them.

        Raises:
            Refusal: there is nothing to start, or it is playing already.
        """
        asked, driven = arrived(document, ControlState), self._of(user, dut)
        if asked.traffic.ccl.state == "stop":
            return {"warnings": await self._stop(user, driven)}
        self._refuse_playing(user, dut)
        driven.runs = [[] for _ in driven.stages]
        for _ in range(driven.config.ccl.stage_loop_count):
            for one, runs in zip(driven.stages, driven.runs, strict=True):
                name = f"{driven.config.ccl.name}: {one.stage.name}"
                wanted = model.Submit(dut=dut, spec=to_yaml(one.experiment), name=name)
                runs += [run.id for run in await self._service.submit(user, wanted)]
        return {"warnings": []}

    async def _stop(self, user: User, driven: _Driven) -> list[str]:
        """Cancel what is not over, and wait for its end; returns what is left, as warnings."""
        for run in self._runs(driven):
            if not run.state.is_over:
                await self._service.cancel_run(user, model.RunName(run=run.id))
        with contextlib.suppress(TimeoutError), self._service.changes.noticed() as changed:
            async with asyncio.timeout(_STOP_S):
                while self._playing(driven):
                    await changed.wait()
                    changed.clear()
        return [f"run {number} has not ended after {_STOP_S:g} s" for number in self._playing(driven)]

    async def get_metrics(self, user: User, dut: str, document: Any) -> Plain:
        """A row for each communicator of each stage; runs that are not complete count no iterations.

        Raises:
            Refusal: a name is unknown, or a run failed.
        """
        asked, driven = arrived(document, MetricsRequest).ccl, self._of(user, dut)
        _check_request(asked, driven)
        for run in self._runs(driven):
            if run.state in (State.FAILED, State.INTERRUPTED):
                raise Refusal(f"run {run.id} ({run.name}) {run.state}: {run.reason}", status=409)
        return {
            "choice": "ccl_metrics",
            "ccl_metrics": [await self._row(driven, index, one, asked) for index, one in _selected(driven, asked)],
        }

    async def _row(self, driven: _Driven, index: int, one: Communicator, asked: CclRequest) -> Plain:
        stage = driven.stages[index]
        runs = [self._service.store.run(number) for number in driven.runs[index]] if driven.runs else []
        folders = [self._service.results(run) for run in runs if run.state is State.COMPLETE]
        measured = await asyncio.to_thread(Measured.of, stage, one, folders)
        found = dict(zip(_NAMES, (one.name, stage.stage.name, index), strict=True))
        columns = await asyncio.to_thread(measured.columns)
        found |= {name: value for name, value in columns.items() if name in (asked.column_names or COLUMNS)}
        recording = driven.config.ccl.iteration_recording
        return found | ({"iteration_metrics": measured.iterations(recording)} if recording.enable else {})

    def _of(self, user: User, dut: str) -> _Driven:
        found = self._driven.get((user.name, self._service.store.dut(dut).name))
        if found is None:
            raise Refusal(f"{user.name} has set no configuration for {dut} since the service began", status=409)
        return found

    def _runs(self, driven: _Driven) -> Iterator[Run]:
        return (self._service.store.run(number) for runs in driven.runs for number in runs)

    def _playing(self, driven: _Driven) -> list[int]:
        """Runs that wait or play."""
        return [run.id for run in self._runs(driven) if not run.state.is_over]

    def _refuse_playing(self, user: User, dut: str) -> None:
        driven = self._driven.get((user.name, dut))
        if driven is not None and (playing := self._playing(driven)):
            raise Refusal(f"run {playing[0]} waits or plays: stop it first", status=409)


def _check_request(asked: CclRequest, driven: _Driven) -> None:
    stages = [one.stage for one in driven.stages]
    known = {
        "stage_names": [one.name for one in stages],
        "communicator_names": [one.name for stage in stages for one in stage.communicators],
        "column_names": COLUMNS,
    }
    for field_name, names in known.items():
        if unknown := next((one for one in getattr(asked, field_name) if one not in names), None):
            raise Refusal(f"ccl.{field_name}: {unknown!r} is none of {', '.join(names)}")


def _selected(driven: _Driven, asked: CclRequest) -> Iterator[tuple[int, Communicator]]:
    for index, run in enumerate(driven.stages):
        for one in run.stage.communicators:
            if run.stage.name in (asked.stage_names or (run.stage.name,)) and one.name in (
                asked.communicator_names or (one.name,)
            ):
                yield index, one


def check_places(run: StageRun, experiment: Experiment, path: str) -> None:
    """Compare a stage with the topology that its run uses.

    Args:
        run: the stage.
        experiment: its run spec, with what the device sets.
        path: of the stage, for errors.

    Raises:
        Refusal: ranks are on other hosts, or addresses of another family.
        InputError: the topology has no such host, or is wrong.
    """
    for index, one in enumerate(run.stage.communicators):
        here, topology = f"{path}.communicators[{index}]", _topology(experiment, one)
        ranks = range(len(one.device_names))
        hosts = tuple(topology.host_of(rank).name for rank in ranks)
        if experiment.network.topology is not None and hosts != one.device_names:
            raise Refusal(f"{here}.device_names: the topology puts the ranks on {', '.join(hosts)}, in this order")
        family = "ipv6" if topology.is_ipv6 else "ipv4"
        if one.rocev2 is not None and one.rocev2.encapsulation != family:
            raise Refusal(f"{here}.rocev2.encapsulation: the addresses of the ranks are {family}")


def _topology(experiment: Experiment, one: Communicator) -> Topology:
    network, ranks = experiment.network, len(one.device_names)
    if network.topology is None:
        return default_loopback(ranks)
    return load_topology(
        Path(network.topology), ranks=ranks, allow_networks=network.allow_networks, hosts=one.device_names
    )


PREFIX = "/otg/{dut}"
_BYTES = "application/octet-stream"
Operation = Callable[[User, str, Any], Awaitable[Plain]]


def add_otg(routes: Routes) -> None:
    """Add the routes. Users are known by their tokens, also as the password of HTTP Basic: snappi sends no other."""
    driving = Driving(routes.service)

    async def get_config(user: User, dut: str, document: None) -> Plain:
        return await driving.get_config(user, dut)

    async def get_version(user: User, dut: str, document: None) -> Plain:
        return {"api_spec_version": MODEL_VERSION, "sdk_version": "", "app_version": VERSION}

    operations: tuple[tuple[str, str, Operation, Role], ...] = (
        ("POST", "/config", driving.set_config, Role.OPERATOR),
        ("GET", "/config", get_config, Role.OPERATOR),
        ("POST", "/control/state", driving.set_control_state, Role.OPERATOR),
        ("POST", "/monitor/metrics", driving.get_metrics, Role.OPERATOR),
        ("GET", "/capabilities/version", get_version, Role.VIEWER),
    )
    for method, path, operation, role in operations:
        routes.add(method, PREFIX + path, _answering(operation), role=role, takes_basic=True)


def _answering(operation: Operation) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        kind = _BYTES if request.content_type == _BYTES and request.method == "POST" else "application/json"
        try:
            document = await object_of(request) if request.method == "POST" else None
            answer = await operation(user(), request.match_info["dut"], document)
        except EmulatorError as error:
            status = error.status if isinstance(error, Refusal) else 400
            problem = {"code": status, "kind": "validation", "errors": [str(error)]}
            return web.json_response(problem, status=status)
        return web.Response(body=msgspec.json.encode(answer), headers={hdrs.CONTENT_TYPE: kind})

    return handle
