"""Servers as namespaces: each with a management interface for control and eth1 at a device under test.

    s0            s1            s2
 mgmt  eth1    mgmt  eth1    mgmt  eth1
  |     |       |     |       |     |
+-+-----+-------+-----+-------+-----+-+
|  mgmt: a bridge       dut: a bridge |   in a namespace of its own
+-------------------------------------+
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.command import Command, started
from tests.support.namespaces import Namespace, cut_frames, namespace

PORT = 4790
TOKEN = "a-token-for-the-tests"


@dataclass(frozen=True, slots=True)
class Rack:
    """Servers and the two bridges between them."""

    servers: Sequence[Namespace]
    middle: Namespace
    folder: Path

    @property
    def controller(self) -> str:
        """What agents dial: the first server, over the management network."""
        return f"10.99.0.1:{PORT}"

    @property
    def listening(self) -> tuple[str | Path, ...]:
        """Options of a controller that agents dial."""
        return "--listen", self.controller, *self.protection

    @property
    def protection(self) -> tuple[str | Path, ...]:
        """Options of controller and agents."""
        return "--insecure", "--token-file", self.token_file

    @property
    def token_file(self) -> Path:
        """The secret of everybody."""
        path = self.folder / "token"
        path.write_text(TOKEN)
        return path

    def topology(self, *, ranks_each: int, mtu: int = 1500) -> Path:
        """A file with all servers at the switch, addresses of their own prefix each."""
        names = [f"s{number}" for number in range(len(self.servers))]
        hosts = [
            {"name": name, "slots": ranks_each, "interfaces": [{"name": "eth1", "per_rank": f"198.18.{at + 1}.0/24"}]}
            for at, name in enumerate(names)
        ]
        links = [{"endpoints": [f"{name}:eth1", f"dut:{name}"], "mtu": mtu} for name in names]
        document = {
            "name": "servers",
            "hosts": hosts,
            "switches": [{"name": "dut", "kind": "physical"}],
            "links": links,
            "dut": {"kind": "switch", "nodes": ["dut"]},
            "agents": {name: name for name in names},
        }
        path = self.folder / "rack.yaml"
        path.write_text(json.dumps(document))
        return path

    @contextmanager
    def agent(self, number: int, *options: object, before: Sequence[str] = ()) -> Iterator[Agent]:
        """An agent by hand at a server; `before` stands between the namespace and the command."""
        command = ("agent", "--controller", self.controller, *self.protection, "--name", f"s{number}")
        prefix = (*self.servers[number].prefix, *before)
        with started(*command, *options or ("--interface", "eth1"), cwd=self.folder, prefix=prefix) as running:
            yield Agent(running)

    def addresses(self, number: int) -> dict[str, dict[str, Any]]:
        """What eth1 of a server has, IPv4."""
        links = json.loads(self.servers[number].run("ip", "-j", "-4", "address", "show", "dev", "eth1"))
        return {entry["local"]: entry for link in links for entry in link["addr_info"]}

    def carried_bytes(self, bridge: str) -> int:
        """What came into a bridge at all its ports since it was made."""
        links = json.loads(self.middle.run("ip", "-j", "-s", "link", "show", "master", bridge))
        return sum(link["stats64"]["rx"]["bytes"] for link in links)


class Agent:
    """An agent by hand, and what it has said."""

    def __init__(self, command: Command) -> None:
        self.command = command

    def says(self, words: str) -> str:
        """The next line with these words."""
        stderr = self.command.process.stderr
        assert stderr is not None
        for line in stderr:
            if words in line:
                return line
        raise AssertionError(f"the agent ended without saying: {words}")

    def kill(self) -> None:
        """Kill it, and wait until it is gone."""
        self.command.process.kill()
        self.command.process.wait(10)


@contextmanager
def rack(servers: int, folder: Path, *, duts: Sequence[str] = ("dut",)) -> Iterator[Rack]:
    """Servers for the length of a test, with eth1, eth2 … at the bridges `duts`."""
    with ExitStack() as stack:
        middle = stack.enter_context(namespace())
        places = [stack.enter_context(namespace()) for _ in range(servers)]
        bridges = {"mgmt": "mgmt"} | {f"eth{number}": name for number, name in enumerate(duts, 1)}
        for bridge in bridges.values():
            middle.run("ip", "link", "add", bridge, "type", "bridge")
            middle.run("ip", "link", "set", bridge, "up")
        for number, place in enumerate(places):
            for interface, bridge in bridges.items():
                port = f"{bridge}{number}"
                middle.run("ip", "link", "add", port, "type", "veth", "peer", "name", interface, "netns", place.name)
                middle.run("ip", "link", "set", port, "master", bridge, "up")
                place.run("ip", "link", "set", interface, "up")
            place.run("ip", "address", "add", f"10.99.0.{number + 1}/24", "dev", "mgmt")
            for interface in bridges.keys() - {"mgmt"}:
                cut_frames(place, interface)
        yield Rack(places, middle, folder)
