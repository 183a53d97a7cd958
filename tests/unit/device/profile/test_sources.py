"""Pause frames as ethtool prints them, and counters in the response to a gNMI Get (its client: integration)."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from emulator.device.counters import sources
from emulator.device.counters.counters import CounterReading
from emulator.device.counters.gnmi_stream import Streamed, streamed
from emulator.device.counters.sources import (
    GnmiCounters,
    HostInterface,
    HostInterfaceCounters,
    interfaces_here,
    parse_pauses,
    readings,
)
from emulator.errors import HostError
from emulator.topology.load import load_topology
from emulator.topology.model import default_loopback
from emulator.topology.network import GnmiTarget

STANDARD = """Pause parameters for eth1:
Autonegotiate:\toff
RX:\t\ton
TX:\t\ton
Statistics:
  tx_pause_frames: 5
  rx_pause_frames: 17
"""
OF_DRIVER = """NIC statistics:
     rx_packets: 12
     rx_pause_ctrl_phy: 3
     rx_prio3_pause: 2
     tx_prio3_pause_duration: 9
"""


def test_standard_counters_of_pause_frames_take_precedence_over_those_of_a_driver() -> None:
    assert parse_pauses(STANDARD, OF_DRIVER) == {"pause_tx": 5, "pause_rx": 17}
    assert parse_pauses("", OF_DRIVER) == {"rx_pause_ctrl_phy": 3, "rx_prio3_pause": 2, "tx_prio3_pause_duration": 9}
    assert parse_pauses("", "no stats available\n") == {}


def test_statistics_have_the_names_of_the_topology(tmp_path: Path) -> None:
    folder = tmp_path / "ens3" / "statistics"
    folder.mkdir(parents=True)
    for number, name in enumerate(sources._COUNTERS):
        (folder / name).write_text(f"{number}\n")
    source = HostInterfaceCounters([HostInterface("h0", "eth0", "ens3")], root=tmp_path)
    assert source.read()[1] == CounterReading("h0", "eth0", "rx_bytes", 1)
    assert len(source.read()) == 8
    (folder / "rx_bytes").unlink()
    with pytest.raises(HostError, match="interface ens3 of this host is gone"):
        source.read()


def test_only_interfaces_whose_addresses_are_here_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("hosts:\n  - {name: h0, address: 198.18.0.1}\n  - {name: h1, address: 198.18.0.2}\n")
    held = {"198.18.0.1": "ens3", "10.0.0.1": "ens4"}
    assert interfaces_here(load_topology(path, ranks=4), holders=lambda: held) == [HostInterface("h0", "eth0", "ens3")]
    assert interfaces_here(default_loopback(4)) == []


def printed(monkeypatch: pytest.MonkeyPatch, outputs: dict[str, str]) -> list[str]:
    """Interfaces that ethtool was called for, with its output by interface."""
    called: list[str] = []

    def run(command: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
        called.append(command[-1])
        return subprocess.CompletedProcess(command, 0, outputs.get(command[-1], "") if command[1] == "-I" else "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return called


def test_pause_frames_are_read_only_from_interfaces_that_count_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for device in ("ens3", "ens4"):
        folder = tmp_path / device / "statistics"
        folder.mkdir(parents=True)
        for name in sources._COUNTERS:
            (folder / name).write_text("1\n")
    called = printed(monkeypatch, {"ens3": STANDARD})
    interfaces = [HostInterface("h0", "eth0", "ens3"), HostInterface("h0", "eth1", "ens4")]
    source = HostInterfaceCounters(interfaces, root=tmp_path)
    source.open()
    called.clear()
    readings = source.read()
    assert set(called) == {"ens3"}
    assert CounterReading("h0", "eth0", "pause_rx", 17) in readings
    assert not any("pause" in one.counter for one in readings if one.interface == "eth1")
    source.close()


@pytest.mark.parametrize("error", [FileNotFoundError("ethtool"), subprocess.TimeoutExpired("ethtool", 5)])
def test_without_ethtool_there_are_no_pause_frames(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def run(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", run)
    assert sources.pause_counters("ens3") == {}


def test_without_the_ip_command_no_interface_is_read(tmp_path: Path) -> None:
    def fail() -> dict[str, str]:
        raise HostError("ip is missing on this host")

    path = tmp_path / "t.yaml"
    path.write_text("hosts:\n  - {name: h0, address: 198.18.0.1}\n")
    assert interfaces_here(load_topology(path, ranks=1), holders=fail) == []


PATH = "interfaces/interface[name=Ethernet4]/state/counters"


def answer(path: str | None, value: Any, *, prefix: str | None = None) -> dict[str, Any]:
    return {"notification": [{"prefix": prefix, "update": [{"path": path, "val": value}]}]}


def test_known_leaves_become_counters_of_their_interface() -> None:
    values = {"in-pkts": "7", "out-octets": 9000, "carrier-transitions": "1"}
    assert list(readings("leaf0", answer(PATH, values))) == [
        CounterReading("leaf0", "Ethernet4", "rx_packets", 7),
        CounterReading("leaf0", "Ethernet4", "tx_bytes", 9000),
    ]


def test_leaves_may_have_the_name_of_their_module() -> None:
    values = {"openconfig-interfaces:in-discards": "3"}
    assert list(readings("leaf0", answer(PATH, values))) == [CounterReading("leaf0", "Ethernet4", "rx_dropped", 3)]


def test_the_interface_may_be_in_the_prefix() -> None:
    found = readings("leaf0", answer("state/counters", {"in-errors": 1}, prefix="interfaces/interface[name=eth 1/2]"))
    assert list(found) == [CounterReading("leaf0", "eth 1/2", "rx_errors", 1)]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"notification": [{}]},
        answer("system/state", {"in-pkts": 1}),
        answer(PATH, None),
        answer(PATH, "7"),
        answer(None, {"in-pkts": 1}),
    ],
)
def test_everything_else_in_the_response_is_ignored(document: dict[str, Any]) -> None:
    assert list(readings("leaf0", document)) == []


def said(path: str, value: Any) -> dict[str, Any]:
    return {"update": {"prefix": None, "update": [{"path": path, "val": value}]}}


@pytest.mark.parametrize("state", [("state/avg-queue-len", 3000), ("state", {"openconfig-qos:avg-queue-len": "3000"})])
def test_a_switch_may_stream_leaves_or_containers(state: tuple[str, Any]) -> None:
    path, value = state
    queue = f"qos/interfaces/interface[interface-id=Ethernet1/2]/output/queues/queue[name=UC3]/{path}"
    assert list(streamed(said(queue, value))) == [Streamed("Ethernet1/2", "UC3", "queue_backlog_bytes", 3000)]
    port = "interfaces/interface[name=Ethernet4]/state/counters/out-discards"
    assert list(streamed(said(port, 7))) == [Streamed("Ethernet4", "", "tx_dropped", 7)]


@pytest.mark.parametrize("message", [{}, said("system/state", 1), said("avg-queue-len", 1), {"sync_response": True}])
def test_the_rest_of_a_stream_is_ignored(message: dict[str, Any]) -> None:
    assert list(streamed(message)) == []


def test_a_password_that_is_not_in_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygnmi")
    monkeypatch.delenv("LEAF_PASSWORD", raising=False)
    target = GnmiTarget("leaf0", "192.0.2.1:9339", password_env="LEAF_PASSWORD", insecure=True)
    with pytest.raises(HostError, match=r"^environment variable LEAF_PASSWORD is not set"):
        GnmiCounters(target).open()


def test_closing_without_a_connection_does_nothing() -> None:
    GnmiCounters(GnmiTarget("leaf0", "192.0.2.1:9339")).close()
