"""Counters over gNMI: the client against a stand-in that implements the protocol over real gRPC on loopback."""

import json
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from emulator.device.counters.counters import CounterReading, Sampler
from emulator.device.counters.sources import GnmiCounters
from emulator.errors import HostError
from emulator.results.run_folder.schema import COUNTERS_SCHEMA, to_batch
from emulator.topology.network import GnmiTarget
from tests.support.command import wait_for

gnmi_path_generator = pytest.importorskip("pygnmi.create_gnmi_path").gnmi_path_generator
gnmi_pb2 = pytest.importorskip("pygnmi.spec.v080.gnmi_pb2")
gnmi_pb2_grpc = pytest.importorskip("pygnmi.spec.v080.gnmi_pb2_grpc")
LEAVES = {"in-pkts": "7", "in-octets": "9000", "out-discards": "3", "carrier-transitions": "1"}


class StandIn(gnmi_pb2_grpc.gNMIServicer):  # type: ignore[misc, name-defined]
    """A switch with two interfaces and one user; `streams`: what it streams, None: its end, `asked`: subscriptions."""

    def __init__(self) -> None:
        self.streams: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.asked: queue.SimpleQueue[Any] = queue.SimpleQueue()

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

    def Subscribe(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:  # noqa: N802
        asked = next(requests).subscribe
        self.asked.put(asked)
        if any(0 < one.sample_interval < 20_000_000 for one in asked.subscription):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "sample_interval is too small")
        threading.Thread(target=self._end_with, args=(requests,)).start()
        while (said := self.streams.get()) is not None:
            yield said

    def _end_with(self, requests: Iterator[Any]) -> None:
        """End the stream with the requests, as SONiC does."""
        with suppress(Exception):  # of grpc, if the client cancels
            list(requests)
        self.streams.put(None)


def answer(*values: tuple[str, int]) -> Any:
    """A message of a stream: path, value."""
    updates = [
        gnmi_pb2.Update(path=gnmi_path_generator(path), val=gnmi_pb2.TypedValue(uint_val=value))
        for path, value in values
    ]
    return gnmi_pb2.SubscribeResponse(update=gnmi_pb2.Notification(timestamp=1, update=updates))


def queue_of(port: str, name: str) -> str:
    return f"/qos/interfaces/interface[interface-id={port}]/output/queues/queue[name={name}]/state/avg-queue-len"


DISCARDS = "/interfaces/interface[name=Ethernet4]/state/counters/out-discards"
SYNCED = gnmi_pb2.SubscribeResponse(sync_response=True)


@pytest.fixture
def switch() -> StandIn:
    return StandIn()


@pytest.fixture
def address(switch: StandIn) -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(4))
    gnmi_pb2_grpc.add_gNMIServicer_to_server(switch, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def target(address: str, **more: Any) -> GnmiTarget:
    return GnmiTarget("leaf0", address, username_env="A_USER", password_env="A_PASSWORD", insecure=True, **more)


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_USER", "admin")
    monkeypatch.setenv("A_PASSWORD", "secret")


def depth(port: str, value: int) -> CounterReading:
    return CounterReading("leaf0", port, "queue_backlog_bytes", value)


@pytest.mark.usefixtures("secrets")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_depth_of_queues_is_streamed_and_summed_over_a_port(address: str, switch: StandIn) -> None:
    switch.streams.put(answer((queue_of("Ethernet0", "UC0"), 100), (queue_of("Ethernet0", "UC3"), 4000)))
    switch.streams.put(answer((queue_of("Ethernet4", "UC0"), 0), (DISCARDS, 2)))
    switch.streams.put(SYNCED)
    source = GnmiCounters(target(address, queues="20ms"))
    source.open()
    asked = switch.asked.get()
    assert [(one.mode, one.sample_interval) for one in asked.subscription] == [(gnmi_pb2.SAMPLE, 20_000_000)] * 2
    assert asked.mode == gnmi_pb2.SubscriptionList.STREAM
    discarded = CounterReading("leaf0", "Ethernet4", "tx_dropped", 2)
    assert set(source.read_queues()) == {depth("Ethernet0", 4100), depth("Ethernet4", 0), discarded}
    assert discarded._replace(value=3) in source.read()  # the Get has a newer value
    assert discarded._replace(value=3) in source.read_queues()  # and what was discarded does not become less
    switch.streams.put(answer((queue_of("Ethernet0", "UC3"), 60), (DISCARDS, 9)))
    wait_for(lambda: depth("Ethernet0", 160) in source.read_queues() or None)
    whole = source.read()
    assert discarded._replace(value=9) in whole
    assert depth("Ethernet0", 160) in whole
    assert len({one[:3] for one in whole}) == len(whole)
    source.close()
    assert source.read_queues() == []


@pytest.mark.usefixtures("secrets")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_stream_of_changes_that_ends_is_reported(address: str, switch: StandIn) -> None:
    for message in (answer((queue_of("Ethernet0", "UC0"), 1)), SYNCED):
        switch.streams.put(message)
    source = GnmiCounters(target(address, queues="on_change"))
    source.open()
    assert {one.mode for one in switch.asked.get().subscription} == {gnmi_pb2.ON_CHANGE}
    switch.streams.put(None)

    def problem() -> str | None:
        try:
            source.read_queues()
        except HostError as error:
            return str(error)
        return None

    assert wait_for(problem) == "leaf0 does not stream its queues over gNMI (it ended the stream)"
    source.close()


@pytest.mark.usefixtures("secrets")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("queues", "reason"),
    [("1ms", "over gNMI .sample_interval is too small"), ("on_change", "streams no depth of a queue: leave out")],
)
def test_a_switch_that_streams_no_queues_is_reported(address: str, switch: StandIn, queues: str, reason: str) -> None:
    switch.streams.put(SYNCED)
    source = GnmiCounters(target(address, queues=queues))
    with pytest.raises(HostError, match=reason):
        source.open()
    source.close()


def said(*updates: tuple[str, Any]) -> Any:
    """A message of a stream: path, typed value, at a time far in the past."""
    found = [gnmi_pb2.Update(path=gnmi_path_generator(path), val=value) for path, value in updates]
    return gnmi_pb2.SubscribeResponse(update=gnmi_pb2.Notification(timestamp=-(1 << 62), update=found))


def value(**kind: Any) -> Any:
    return gnmi_pb2.TypedValue(**kind)


UC0 = queue_of("Ethernet0", "UC0")


@pytest.mark.usefixtures("secrets")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (said((UC0, value(uint_val=2**64 - 1))), "avg-queue-len is '18446744073709551615', which is no count"),
        (said((UC0, value(int_val=-1))), "avg-queue-len is '-1', which is no count"),
        (said((UC0, value(float_val=float("nan")))), "avg-queue-len is 'nan', which is no count"),
        (said((UC0, value(json_ietf_val=b"[1]"))), "avg-queue-len is '[1]', which is no count"),
        (said((UC0, value(json_ietf_val=b"{"))), "it sent what cannot be read"),
        (said((queue_of("E" * 300, "UC0"), value(uint_val=1))), "a name has more than 256 characters"),
        (said(*((queue_of(f"E{one}", "UC0"), value(uint_val=1)) for one in range(20))), "it sends more than 16 values"),
    ],
)
def test_what_no_switch_should_stream_ends_the_stream_but_not_the_counters(
    address: str, switch: StandIn, message: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.device.counters.gnmi_stream.MOST_VALUES", 16)
    for one in (answer((UC0, 1)), SYNCED):
        switch.streams.put(one)
    sampler = Sampler([GnmiCounters(target(address, queues="20ms"))], period_s=0.02)
    sampler.start()
    switch.streams.put(message)

    def without_queues() -> Any:
        found = sampler.take()
        return found if found and "queue_backlog_bytes" not in found["counter"] else None

    later = wait_for(without_queues, 10)
    sampler.stop()
    assert sampler.problems == [f"leaf0 does not stream its queues over gNMI ({reason})"]
    assert {"rx_bytes", "tx_dropped"} <= set(later["counter"])
    to_batch(COUNTERS_SCHEMA, later)


@pytest.mark.usefixtures("secrets")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("queues", "is_broken"), [("20ms", True), ("on_change", False)])
def test_a_stream_that_falls_silent_is_reported(
    address: str, switch: StandIn, queues: str, *, is_broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for message in (answer((UC0, 1)), SYNCED):
        switch.streams.put(message)
    source = GnmiCounters(target(address, queues=queues))
    source.open()
    monkeypatch.setattr("emulator.device.counters.gnmi_stream.time.monotonic", lambda: 1e12)
    if is_broken:
        with pytest.raises(HostError, match=r"does not stream its queues over gNMI .it has sent nothing for 5 s"):
            source.read_queues()
    else:
        assert source.read_queues() == [depth("Ethernet0", 1)]
    source.close()


@pytest.mark.usefixtures("secrets")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_stream_that_takes_much_of_a_core_is_ended(
    address: str, switch: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.device.counters.gnmi_stream._OVER_S", 0.0)
    monkeypatch.setattr("emulator.device.counters.gnmi_stream._SHARE", 0.0)
    for message in (answer((UC0, 1)), SYNCED):
        switch.streams.put(message)
    with pytest.raises(HostError, match="it sends faster than they can be read"):
        GnmiCounters(target(address, queues="20ms")).open()


@pytest.mark.usefixtures("secrets")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_other_paths_and_times_are_ignored(address: str, switch: StandIn) -> None:
    other = said(("/a/b[c=d]/e", value(uint_val=2**64 - 1)), ("/interfaces/interface[name=E]/x", value(string_val="")))
    for message in (other, said((UC0, value(uint_val=7))), SYNCED):
        switch.streams.put(message)
    source = GnmiCounters(target(address, queues="20ms"))
    source.open()
    assert source.read_queues() == [depth("Ethernet0", 7)]
    source.close()


@pytest.mark.usefixtures("secrets")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("octets", ["many", str(2**64 - 1), "-1"])
def test_a_counter_that_is_no_count_is_reported(address: str, octets: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEAVES, "in-octets", octets)
    source = GnmiCounters(target(address))
    source.open()
    with pytest.raises(HostError, match=f"in-octets is '{octets}', which is no count"):
        source.read()
    source.close()


def certificate(folder: Path) -> tuple[bytes, bytes]:
    """(key, certificate) of 127.0.0.1, signed by itself; both in PEM, and in `folder`."""
    folder.mkdir()
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -out cert -days 2"
    names = ["-subj", "/CN=leaf0", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*words.split(), *names], cwd=folder, check=True, capture_output=True)
    return (folder / "key").read_bytes(), (folder / "cert").read_bytes()


@pytest.mark.usefixtures("secrets")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
def test_only_a_switch_with_a_trusted_certificate_gets_the_password(
    switch: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.device.counters.sources._TIMEOUT_S", 0.3)
    pair = certificate(tmp_path / "own")
    certificate(tmp_path / "other")
    server = grpc.server(futures.ThreadPoolExecutor(4))
    gnmi_pb2_grpc.add_gNMIServicer_to_server(switch, server)
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    server.start()
    known = GnmiTarget("leaf0", f"127.0.0.1:{port}", "A_USER", "A_PASSWORD", ca=str(tmp_path / "own/cert"))
    for ca in (None, str(tmp_path / "other/cert")):
        with pytest.raises(HostError, match="leaf0 does not answer gNMI"):
            GnmiCounters(replace(known, ca=ca)).open()
    monkeypatch.undo()
    monkeypatch.setenv("A_USER", "admin")
    monkeypatch.setenv("A_PASSWORD", "secret")
    source = GnmiCounters(known)
    source.open()
    assert len(source.read()) == 6
    source.close()
    server.stop(None).wait()


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
