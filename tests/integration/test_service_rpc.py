"""The operations over gRPC, called with what protoc makes of the description that the service gives."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_tools import protoc  # type: ignore[import-untyped]

from charkha.service import Role
from emulator.experiment.live_address import LiveAddress
from emulator.service.operations import OPERATIONS
from emulator.service.rpc import described, rpc_server
from tests.integration.test_live_page import asynchronous
from tests.support.service import QUICK, add_users, in_this_process

WELL_KNOWN = str(Path(protoc.__file__).parent / "_proto")


@pytest.fixture
def generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Messages and stubs, as programs in other languages have them."""
    (tmp_path / "charkha_lab.proto").write_text(described().proto())
    out = [f"--{kind}_out={tmp_path}" for kind in ("python", "grpc_python")]
    assert protoc.main(["protoc", f"-I{tmp_path}", f"-I{WELL_KNOWN}", *out, "charkha_lab.proto"]) == 0
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module("charkha_lab_pb2"), importlib.import_module("charkha_lab_pb2_grpc")


@asynchronous
async def test_every_method_needs_a_user_with_its_role(tmp_path: Path) -> None:
    tokens = add_users(tmp_path, viewer=Role.VIEWER, operator=Role.OPERATOR, admin=Role.ADMIN)
    async with (
        in_this_process(tmp_path) as (routes, _),
        rpc_server(routes.service, LiveAddress(), identity=None) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):

        async def status_of(method: str, *metadata: tuple[str, str]) -> Any:
            try:
                await channel.unary_unary(method, bytes, bytes)(b"", metadata=metadata)
            except grpc.aio.AioRpcError as error:
                return error.code()
            return grpc.StatusCode.OK

        for one in OPERATIONS.values():
            if one.is_stream:
                continue
            method = f"/{described().name}/{one.name.title().replace('_', '')}"
            assert await status_of(method) is grpc.StatusCode.UNAUTHENTICATED
            assert await status_of(method, ("authorization", "Bearer no")) is grpc.StatusCode.UNAUTHENTICATED
            for name, token in tokens.items():
                found = await status_of(method, ("authorization", f"Bearer {token}"))
                refused = found is grpc.StatusCode.PERMISSION_DENIED
                assert refused is not Role(name).includes(one.role), (method, name, found)
                assert found is not grpc.StatusCode.UNKNOWN


@asynchronous
async def test_generated_stubs_submit_follow_and_are_refused(tmp_path: Path, generated: tuple[Any, Any]) -> None:
    messages, stubs = generated
    (token,) = add_users(tmp_path, ann=Role.ADMIN).values()
    metadata = (("authorization", f"Bearer {token}"),)
    async with (
        in_this_process(tmp_path) as (routes, _),
        rpc_server(routes.service, LiveAddress(), identity=None) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        stub = stubs.ServiceStub(channel)
        dut = messages.Dut(name="far", topologies=["rail-4x4"])
        dut.spec.update({"timeout_s": 5})
        assert (await stub.AddDut(dut, metadata=metadata)).spec["timeout_s"] == 5
        (run,) = (await stub.Submit(messages.Submit(dut="loopback", spec=QUICK), metadata=metadata)).items
        assert (run.id, run.state, run.HasField("started")) == (1, "waiting", False)
        assert run.submitted.seconds > 1_700_000_000
        events = stub.FollowRun(messages.RunName(run=1), metadata=metadata)
        following = aiter(events)
        assert (await anext(following)).run == run
        await stub.CancelRun(messages.RunName(run=1), metadata=metadata)
        assert [event.run.state async for event in following] == ["cancelled"]
        listed = await stub.ListRuns(messages.RunQuery(state="cancelled"), metadata=metadata)
        assert [one.id for one in listed.items] == [1]
        for call, asked, code in (
            (stub.GetRun, messages.RunName(run=7), grpc.StatusCode.NOT_FOUND),
            (stub.GetRun, messages.RunName(), grpc.StatusCode.INVALID_ARGUMENT),
            (stub.CancelRun, messages.RunName(run=1), grpc.StatusCode.FAILED_PRECONDITION),
            (stub.GetReport, messages.RunName(run=1), grpc.StatusCode.FAILED_PRECONDITION),
            (
                stub.Submit,
                messages.Submit(dut="far", spec=json.dumps({"charkha": 1})),
                grpc.StatusCode.INVALID_ARGUMENT,
            ),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await call(asked, metadata=metadata)
            assert refusal.value.code() is code
