"""Labs that a test brings up for itself, with their own name and store."""

import json
import secrets
import subprocess
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import pytest

from emulator.device.lab.design import make_design
from emulator.device.lab.labs import Labs
from emulator.device.lab.model import Node
from emulator.device.lab.recipe import exec_prefix
from emulator.device.lab.state import UP, LabState, LabStore, Owner, Party
from emulator.host.tools import CommandBatch, CommandHost, on
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from tests.support.command import wait_for

TWO_HOSTS = Path(__file__).parents[2] / "topologies" / "two-hosts-switch.yaml"


def designed(topology: Topology, lab_id: str) -> LabState:
    """The state of a lab as if it were up; nothing is made."""
    return LabState(
        design=make_design(topology, lab_id),
        topology=str(topology.source),
        digest=topology.digest or "",
        name=topology.name,
        created="2026-01-01T00:00:00.000+00:00",
        owner=Owner.me(),
        phase=UP,
        belongs_to=Party.me(),
    )


def stored(store: LabStore, topology: Topology, lab_id: str, **changes: object) -> LabState:
    """The same, in a store, with some of its fields changed."""
    state = replace(designed(topology, lab_id), **changes)  # type: ignore[arg-type]
    store.claim(lab_id)
    store.write(state)
    return state


@dataclass(frozen=True)
class RaisedLab:
    """A lab that is up."""

    topology: Topology
    state: LabState
    store: LabStore

    def exec_prefix(self, node: str) -> tuple[str, ...]:
        """Prefix that runs a command in the namespace of a node."""
        return tuple(exec_prefix(self.state.design.node(node)))


@contextmanager
def raised(folder: Path, text: str) -> Iterator[RaisedLab]:
    """The lab of a topology, during a test."""
    path = folder / "topology.yaml"
    path.write_text(text)
    topology = load_topology(path, ranks=0)
    store = LabStore(folder / "labs")
    labs, lab_id = Labs(store), f"test-{secrets.token_hex(4)}"
    try:
        yield RaisedLab(topology, labs.up(topology, lab_id=lab_id), store)
    finally:
        labs.down(lab_id)


def forwarding(lab_id: str, store: LabStore | None = None) -> None:
    """Wait until all links of a lab are up, and all ports of bridges forward: after a flap that takes a second."""
    state = (store or LabStore()).read(lab_id)
    assert state is not None
    wait_for(lambda: all(_forwards(node) for node in state.design.nodes) or None)


def _forwards(node: Node) -> bool:
    listed = subprocess.run([*exec_prefix(node), "ip", "-j", "-d", "link"], capture_output=True, check=True)
    devices = {port.device for port in node.ports}
    links = [link for link in json.loads(listed.stdout) if link["ifname"] in devices]
    ports = (link.get("linkinfo", {}).get("info_slave_data", {}) for link in links)
    return all(link["operstate"] == "UP" for link in links) and all(
        port.get("state", "forwarding") == "forwarding" for port in ports
    )


@contextmanager
def pretended(
    prints: Callable[[CommandBatch], str] = lambda batch: "",
    *,
    code: int = 0,
    user: int = 0,
    missing: Collection[str] = (),
    namespaces: Path = Path("/nowhere"),
    become: Callable[[str, list[str]], NoReturn] = lambda program, words: pytest.fail(f"{words} was run"),
) -> Iterator[list[CommandBatch]]:
    """Have commands print this instead of being run; yields the batches so far.

    Args:
        prints: what a batch prints.
        code: exit code of all.
        user: effective user id.
        missing: tools that are not installed.
        namespaces: folder of the network namespaces.
        become: stands in for exec.
    """
    asked: list[CommandBatch] = []

    def finish(batch: CommandBatch) -> subprocess.CompletedProcess[str]:
        asked.append(batch)
        return subprocess.CompletedProcess(batch.command, code, prints(batch), "")

    def which(tool: str) -> str | None:
        return None if tool in missing else f"/sbin/{tool}"

    with on(CommandHost(finish, which, lambda: user, become, namespaces)):
        yield asked
