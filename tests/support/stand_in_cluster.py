"""A stand-in for a Kubernetes cluster that real `kubectl` talks to: an API server on loopback, pods as processes here.

It keeps objects, makes the pods of Jobs, runs what agents' pods would run, and what `kubectl exec` asks for, as
processes in a folder that stands for the pod's. It is no cluster: no scheduler, no image, no network of pods, and it
checks no manifest; tests with kubernetes-validate do that.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

Plain = dict[str, Any]
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_KINDS = {"pods": "Pod", "services": "Service", "secrets": "Secret", "jobs": "Job"}
_VERSION = {"major": "1", "minor": "32", "gitVersion": "v1.32.0"}
_GROUPS = [{"name": "batch", "versions": [{"groupVersion": "batch/v1", "version": "v1"}]}]
_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255  # channels of v5.channel.k8s.io


class StandInCluster:
    """Objects by kind and name, and the processes of pods.

    Attributes:
        objects: what was made and not removed.
        requests: what was asked, as METHOD PATH.
    """

    def __init__(self, folder: Path, *, control_port: int) -> None:
        self.folder, self._port = folder, control_port
        self.objects: dict[tuple[str, str], Plain] = {}
        self.requests: list[str] = []
        self._processes: dict[str, list[asyncio.subprocess.Process]] = {}
        self._programs = folder / "bin"
        self._programs.mkdir()
        program = self._programs / "charkha"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m emulator "$@"\n')
        program.chmod(0o755)

    def named(self, kind: str) -> list[str]:
        """Names of the objects of a kind that are there."""
        return [name for one, name in self.objects if one == kind]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve; gives the address."""
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            for name in list(self._processes):
                await self._stop(name)
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        match request.path.strip("/").split("/"):
            case ["version"]:
                return web.json_response(_VERSION)
            case ["api"]:
                return web.json_response({"kind": "APIVersions", "versions": ["v1"]})
            case ["apis"]:
                return web.json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": _GROUPS})
            case ["api", "v1"]:
                return web.json_response(_resources("v1", ("pods", "services", "secrets")))
            case ["apis", "batch", "v1"]:
                return web.json_response(_resources("batch/v1", ("jobs",)))
            case ["openapi", "v3"]:
                paths = {one: {"serverRelativeURL": f"/openapi/v3/{one}"} for one in ("api/v1", "apis/batch/v1")}
                return web.json_response({"paths": paths})
            case ["openapi", "v3", *_]:
                return web.json_response(_schema())
            case [*_, "pods", name, "exec"]:
                return await self._exec(request, name)
            case [*_, "namespaces", "default", kind]:
                return await self._collection(request, kind)
            case [*_, "namespaces", "default", kind, name]:
                return await self._single(request, kind, name)
        return _not_found(request.path)

    async def _collection(self, request: web.Request, kind: str) -> web.Response:
        if request.method == "POST":
            made = await request.json()
            name = made["metadata"]["name"]
            self.objects[kind, name] = made
            if kind == "jobs":
                await self._start_job(name, made["spec"])
            return web.json_response(made, status=201)
        wanted = dict(one.split("=") for one in request.query.get("labelSelector", "").split(",") if one)
        found = [one for (of, _), one in self.objects.items() if of == kind and _has(one, wanted)]
        if request.method == "DELETE":
            for one in found:
                await self._remove(kind, one["metadata"]["name"])
        return web.json_response({"kind": f"{_KINDS[kind]}List", "apiVersion": "v1", "metadata": {}, "items": found})

    async def _single(self, request: web.Request, kind: str, name: str) -> web.Response:
        if (kind, name) not in self.objects:
            return _not_found(name)
        found = self.objects[kind, name]
        if request.method == "DELETE":
            await self._remove(kind, name)
        return web.json_response(found)

    async def _remove(self, kind: str, name: str) -> None:
        del self.objects[kind, name]
        if kind == "pods":
            await self._stop(name)

    async def _start_job(self, job: str, spec: Plain) -> None:
        for index in range(spec["completions"]):
            name = f"{job}-{index}-abcde"
            template = spec["template"]
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            metadata = template["metadata"] | {"name": name, "namespace": "default"}
            pod = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": template["spec"], "status": status}
            self.objects["pods", name] = pod
            (self.folder / name).mkdir()
            container = template["spec"]["containers"][0]
            if "args" in container:
                await self._start(name, index, container)

    async def _start(self, pod: str, index: int, container: Plain) -> None:
        words = [self._here(pod, one).replace("$(JOB_COMPLETION_INDEX)", str(index)) for one in container["args"]]
        with (self.folder / f"{pod}.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "emulator", *words),
                cwd=self.folder / pod,
                env=os.environ | self._environment(container),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.setdefault(pod, []).append(process)

    def _environment(self, container: Plain) -> dict[str, str]:
        own = {one["name"]: self._value(one) for one in container["env"]}
        return {**own, "PATH": f"{self._programs}:{os.environ['PATH']}"}

    def _value(self, variable: Plain) -> str:
        if "value" in variable:
            return str(variable["value"])
        source = variable["valueFrom"]["secretKeyRef"]
        return str(self.objects["secrets", source["name"]]["stringData"][source["key"]])

    async def _stop(self, pod: str) -> None:
        for process in self._processes.pop(pod, ()):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def _exec(self, request: web.Request, pod: str) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",), max_msg_size=1 << 30)
        await socket.prepare(request)
        process = await asyncio.create_subprocess_exec(
            *(self._here(pod, word) for word in request.query.getall("command")),
            cwd=self.folder / pod,
            env=os.environ | self._environment(self.objects["pods", pod]["spec"]["containers"][0]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._processes.setdefault(pod, []).append(process)
        assert process.stdout is not None
        assert process.stderr is not None
        reading = asyncio.create_task(_feed(socket, process))
        await asyncio.gather(_hand_on(process.stdout, _STDOUT, socket), _hand_on(process.stderr, _STDERR, socket))
        await _tell_end(socket, await process.wait())
        reading.cancel()
        await socket.close()
        return socket

    def _here(self, pod: str, word: str) -> str:
        """A word of a command, with what is where in a pod as it is here."""
        if word.endswith(":4790"):
            return f"127.0.0.1:{self._port}"
        return word.replace("/work", str(self.folder / pod))


async def _feed(socket: web.WebSocketResponse, process: asyncio.subprocess.Process) -> None:
    """What kubectl sends goes to stdin, which ends when kubectl closes the channel, or is gone."""
    with suppress(ConnectionError):
        async for message in socket:
            if message.type is not WSMsgType.BINARY or message.data[0] == _CLOSE:
                break
            process.stdin.write(message.data[1:])
            await process.stdin.drain()
    process.stdin.close()


async def _hand_on(stream: asyncio.StreamReader, channel: int, socket: web.WebSocketResponse) -> None:
    with suppress(ConnectionError):
        while data := await stream.read(1 << 16):
            await socket.send_bytes(bytes([channel]) + data)


async def _tell_end(socket: web.WebSocketResponse, code: int) -> None:
    status: Plain = {"metadata": {}, "status": "Success"}
    if code:
        cause = {"reason": "ExitCode", "message": str(code)}
        message = f"command terminated with non-zero exit code: {code}"
        status = {"status": "Failure", "reason": "NonZeroExitCode", "message": message, "details": {"causes": [cause]}}
    with suppress(ConnectionError):
        await socket.send_bytes(bytes([_ERROR]) + json.dumps(status).encode())


def _resources(version: str, names: tuple[str, ...]) -> Plain:
    plain = [
        {"name": name, "singularName": name[:-1], "namespaced": True, "kind": _KINDS[name], "verbs": _VERBS}
        for name in names
    ]
    return {"kind": "APIResourceList", "groupVersion": version, "resources": plain}


def _schema() -> Plain:
    """As little as kubectl asks for before it leaves the validation of fields to the server."""
    versions = [("batch", kind) if kind == "Job" else ("", kind) for kind in _KINDS.values()]
    validates = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
    paths = {
        f"/{kind}": {
            "patch": {
                "parameters": [validates],
                "responses": {},
                "x-kubernetes-group-version-kind": {"group": group, "version": "v1", "kind": kind},
            }
        }
        for group, kind in versions
    }
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "1"}, "paths": paths}


def _has(plain: Plain, labels: Mapping[str, str]) -> bool:
    return labels.items() <= plain["metadata"].get("labels", {}).items()


def _not_found(what: str) -> web.Response:
    status = {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": f"{what} not found"}
    return web.json_response(status, status=404)
