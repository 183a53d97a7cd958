"""Where faults strike: two hosts at a switch in namespaces, and what there is to see of a run from outside."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from emulator.device.lab.recipe import exec_prefix
from emulator.device.lab.state import LabStore
from tests.lab.trials import star_lab
from tests.support.servers import rack


@dataclass(frozen=True, slots=True)
class Site:
    """Hosts and a switch.

    Attributes:
        mark: what names of its namespaces have in common.
        folder: for files.
        options: of the command.
        nodes: name → what stands before a command there.
        switch: the node that all traffic crosses, and how its ports to hosts are called.
        prefix: what stands before the command.
        stray_frames: of ARP, that may enter the switch in a moment.
        renew: makes all nodes anew.
    """

    mark: str
    folder: Path
    options: Sequence[object]
    nodes: Mapping[str, Sequence[str]]
    switch: tuple[str, str]
    prefix: Sequence[str] = ()
    stray_frames: int = 0
    renew: Callable[[], None] = lambda: None

    def run(self, node: str, *words: object) -> str:
        """What a command in a node prints."""
        command = [*self.nodes[node], *map(str, words)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def frames(self) -> int:
        """That the switch has received from hosts."""
        node, ports = self.switch
        links = json.loads(self.run(node, "ip", "-j", "-s", "link"))
        return sum(one["stats64"]["rx"]["packets"] for one in links if re.fullmatch(ports, one["ifname"]))

    def state(self) -> set[str]:
        """Its namespaces, and addresses and routes of the nodes."""
        names = [line.split()[0] for line in subprocess.getoutput("ip netns list").splitlines()]
        found = {f"namespace {name}" for name in names if self.mark in name}
        for node in self.nodes:
            for words in (("-br", "address"), ("route",)):
                lines = re.sub(r"@\S+", "", self.run(node, "ip", *words)).splitlines()  # numbers of the other ends
                found |= {f"{node}: {line.strip()}" for line in lines}
        return found


@contextmanager
def lab() -> Iterator[Site]:
    """A lab whose agents the command starts."""
    with star_lab(2, rate="1Gbit") as one:
        state = LabStore().read(one.id)

        def renew() -> None:
            one.down()
            one.up()

        one.folder.chmod(0o711)  # for a run of another user
        nodes = {node.name: exec_prefix(node) for node in state.design.nodes}
        yield Site(one.id, one.folder, ("--topology", "lab.yaml", "--lab", one.id), nodes, ("sw0", r"p\d"), renew=renew)


@contextmanager
def servers(folder: Path) -> Iterator[Site]:
    """Servers whose agents dial in over a network of their own."""
    with rack(2, folder) as one, one.agent(0), one.agent(1):
        nodes = {"s0": one.servers[0].prefix, "s1": one.servers[1].prefix, "middle": one.middle.prefix}
        options = ("--topology", one.topology(ranks_each=2), *one.listening)
        yield Site(one.middle.name, folder, options, nodes, ("middle", r"dut\d"), one.servers[0].prefix, stray_frames=8)
