"""Commands that start Open vSwitch for a lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.device.lab.design import make_design
from emulator.device.lab.model import Node
from emulator.device.lab.ovs import ovs_batches, version_batch
from emulator.device.lab.recipe import CommandBatch
from tests.support.topologies import shipped_topology

FOLDER = Path("/run/charkha/x/sw0")


@pytest.fixture
def switch() -> Node:
    design = make_design(shipped_topology("two-hosts-switch"), "x")
    return design.node("sw0")


def batches(switch: Node) -> list[CommandBatch]:
    return list(ovs_batches(switch, FOLDER))


def tool_of(batch: CommandBatch) -> str:
    return next(word for word in batch.command if word.startswith(("ovsdb-", "ovs-")))


def test_the_database_serves_before_the_switch_starts(switch: Node) -> None:
    assert [tool_of(one) for one in batches(switch)] == [
        "ovsdb-tool",
        "ovsdb-server",
        "ovs-vsctl",
        "ovs-vswitchd",
        "ovs-vsctl",
        "ovs-ofctl",
    ]


def test_every_command_runs_in_the_namespace_with_a_folder_of_its_own(switch: Node) -> None:
    for one in batches(switch):
        assert one.command[:4] == ("ip", "netns", "exec", "charkha-x-sw0")
        assert {f"OVS_RUNDIR={FOLDER}", f"OVS_LOGDIR={FOLDER}"} < set(one.command)


def test_files_of_both_daemons_are_in_the_folder_of_the_lab(switch: Node) -> None:
    daemons = [one.command for one in batches(switch) if "--detach" in one.command]
    files = [
        word.partition("=")[2] for words in daemons for word in words if word.startswith(("--pid", "--log", "--u"))
    ]
    assert len(files) == 6
    assert len(set(files)) == 6
    assert all(Path(file).parent == FOLDER for file in files)


def test_ports_are_plugged_into_the_userspace_datapath_by_number(switch: Node) -> None:
    plug = " ".join(batches(switch)[4].command)
    assert "datapath_type=netdev" in plug
    for number, port in enumerate(switch.ports, start=1):
        assert f"set interface {port.device} ofport_request={number}" in plug


def test_frames_leave_by_the_port_of_their_destination(switch: Node) -> None:
    flows = batches(switch)[5].lines
    number = {port.device: at for at, port in enumerate(switch.ports, start=1)}
    assert len(flows) == len(switch.forwards) > 0
    assert list(flows) == [
        f"priority=1,dl_dst={one.mac},actions=output:{number[one.device]}" for one in switch.forwards
    ]


def test_the_version_is_that_of_the_switch() -> None:
    assert version_batch().command == ("ovs-vswitchd", "--version")
