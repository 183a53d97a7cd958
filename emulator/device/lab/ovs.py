"""Open vSwitch as a lab's switch: its userspace datapath, with a database and daemons of the lab's own.

The host's own Open vSwitch, if it runs one, is not touched: everything is in the lab's folder and namespace.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from emulator.device.lab.model import Node
from emulator.device.lab.recipe import BRIDGE_DEVICE, CommandBatch, exec_prefix

TOOLS = ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl")
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")


def ovs_batches(node: Node, folder: Path) -> Iterator[CommandBatch]:
    """Commands that start the switch of a node and add its ports, in order.

    Args:
        node: of kind ovs; its devices are up.
        folder: existing folder for the files of this switch.
    """
    database, socket = folder / "conf.db", folder / "db.sock"
    entered = (*exec_prefix(node), "env", f"OVS_RUNDIR={folder}", f"OVS_LOGDIR={folder}")
    yield CommandBatch((*entered, "ovsdb-tool", "create", str(database), str(SCHEMA)))
    server = ("ovsdb-server", str(database), f"--remote=punix:{socket}")
    yield CommandBatch((*entered, *server, *_daemon(folder, "ovsdb-server")))
    client = (*entered, "ovs-vsctl", "--timeout=10", f"--db=unix:{socket}")
    yield CommandBatch((*client, "--no-wait", "init"))
    yield CommandBatch((*entered, "ovs-vswitchd", f"unix:{socket}", *_daemon(folder, "ovs-vswitchd")))
    yield CommandBatch((*client, *_plug(node)))
    number = _numbers(node)
    flows = [f"priority=1,dl_dst={one.mac},actions=output:{number[one.device]}" for one in node.forwards]
    yield CommandBatch((*entered, "ovs-ofctl", "add-flows", f"unix:{folder}/{BRIDGE_DEVICE}.mgmt", "-"), flows)


def version_batch() -> CommandBatch:
    """The command that prints the version, in its first line."""
    return CommandBatch(("ovs-vswitchd", "--version"))


def _daemon(folder: Path, name: str) -> tuple[str, ...]:
    own = (f"--unixctl={folder}/{name}.ctl", f"--pidfile={folder}/{name}.pid", f"--log-file={folder}/{name}.log")
    return (*own, "--detach", "--no-chdir", "-vconsole:off")


def _plug(node: Node) -> Iterator[str]:
    yield from ("add-br", BRIDGE_DEVICE, "--", "set", "bridge", BRIDGE_DEVICE, "datapath_type=netdev")
    for device, number in _numbers(node).items():
        yield from ("--", "add-port", BRIDGE_DEVICE, device)
        yield from ("--", "set", "interface", device, f"ofport_request={number}")


def _numbers(node: Node) -> dict[str, int]:
    """Device → its OpenFlow port number."""
    return {port.device: number for number, port in enumerate(node.ports, start=1)}
