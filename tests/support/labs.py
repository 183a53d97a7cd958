"""Labs that a test raises for itself, with a name and a store of their own."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from emulator.lab.labs import Labs
from emulator.lab.recipe import inside
from emulator.lab.state import LabState, LabStore
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from tests.support.command import wait_for


@dataclass(frozen=True)
class RaisedLab:
    """A lab that is up."""

    topology: Topology
    state: LabState
    store: LabStore

    def inside(self, node: str) -> tuple[str, ...]:
        """What runs a command in a node's namespace, before the command."""
        return tuple(inside(self.state.design.node(node)))

    @property
    def forwards(self) -> bool:
        """Whether all links are up, and all ports of bridges forward: the kernel takes up to a second."""
        for node in self.state.design.nodes:
            listed = subprocess.run(
                [*self.inside(node.name), "ip", "-j", "-d", "link"], capture_output=True, check=True
            )
            for link in json.loads(listed.stdout):
                port = link.get("linkinfo", {}).get("info_slave_data", {})
                if link["operstate"] == "DOWN" or port.get("state", "forwarding") != "forwarding":
                    return False
        return True


@contextmanager
def raised(folder: Path, text: str) -> Iterator[RaisedLab]:
    """The lab of a topology with this text, for the length of a test."""
    path = folder / "topology.yaml"
    path.write_text(text)
    topology = load_topology(path, ranks=0)
    store = LabStore(folder / "labs")
    labs, lab_id = Labs(store), f"test-{secrets.token_hex(4)}"
    try:
        lab = RaisedLab(topology, labs.up(topology, lab_id=lab_id), store)
        wait_for(lambda: lab.forwards or None, 10)
        yield lab
    finally:
        labs.down(lab_id)
