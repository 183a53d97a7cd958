"""Counters over gNMI: the client against a stand-in that implements the protocol over real gRPC on loopback."""

import json
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

from emulator.device.counters.counters import CounterReading
from emulator.device.counters.sources import GnmiCounters
from emulator.errors import HostError
from emulator.topology.network import GnmiTarget

gnmi_pb2 = pytest.importorskip("pygnmi.spec.v080.gnmi_pb2")
gnmi_pb2_grpc = pytest.importorskip("pygnmi.spec.v080.gnmi_pb2_grpc")
LEAVES = {"in-pkts": "7", "in-octets": "9000", "out-discards": "3", "carrier-transitions": "1"}


class StandIn(gnmi_pb2_grpc.gNMIServicer):  # type: ignore[misc, name-defined]
    """A switch with two interfaces and one user."""

    def Capabilities(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        return gnmi_pb2.CapabilityResponse(gNMI_version="0.8.0", supported_encodings=[gnmi_pb2.JSON_IETF])

    def Get(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        metadata = dict(context.invocation_metadata())
        if (metadata.get("username"), metadata.get("password")) != ("admin", "secret"):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")
        updates = []
        for name in ("Ethernet0", "Ethernet4"):
            elements = [
                gnmi_pb2.PathElem(name="interfaces"),
                gnmi_pb2.PathElem(name="interface", key={"name": name}),
                gnmi_pb2.PathElem(name="state"),
                gnmi_pb2.PathElem(name="counters"),
            ]
            value = gnmi_pb2.TypedValue(json_ietf_val=json.dumps(LEAVES).encode())
            updates.append(gnmi_pb2.Update(path=gnmi_pb2.Path(elem=elements), val=value))
        return gnmi_pb2.GetResponse(notification=[gnmi_pb2.Notification(timestamp=1, update=updates)])


@pytest.fixture
def address() -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(2))
    gnmi_pb2_grpc.add_gNMIServicer_to_server(StandIn(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def target(address: str) -> GnmiTarget:
    return GnmiTarget("leaf0", address, username_env="A_USER", password_env="A_PASSWORD", insecure=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_counters_of_a_switch_have_the_names_of_the_run_folder(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_USER", "admin")
    monkeypatch.setenv("A_PASSWORD", "secret")
    source = GnmiCounters(target(address))
    source.open()
    read = source.read()
    source.close()
    assert set(read) == {
        CounterReading("leaf0", name, counter, value)
        for name in ("Ethernet0", "Ethernet4")
        for counter, value in (("rx_packets", 7), ("rx_bytes", 9000), ("tx_dropped", 3))
    }


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_switch_that_refuses_is_reported(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_USER", "admin")
    monkeypatch.setenv("A_PASSWORD", "guess")
    source = GnmiCounters(target(address))
    source.open()
    with pytest.raises(HostError, match=f"leaf0 does not answer gNMI at {address}"):
        source.read()
    source.close()


def test_a_missing_secret_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A_USER", raising=False)
    with pytest.raises(HostError, match="environment variable A_USER is not set"):
        GnmiCounters(target("127.0.0.1:1")).open()


def test_an_unreachable_switch_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_USER", "admin")
    monkeypatch.setenv("A_PASSWORD", "secret")
    source = GnmiCounters(target("127.0.0.1:1"))
    with pytest.raises(HostError, match=r"leaf0 does not answer gNMI at 127.0.0.1:1 "):
        source.open()
    source.close()
