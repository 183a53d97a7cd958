"""Topologies whose hosts come from agents: the machines that joined, and what is wrong with one."""

import re
from pathlib import Path

import pytest

from emulator.errors import PlanError, TopologyError
from emulator.topology.joining import AgentPort, JoinedAgent
from emulator.topology.load import joining_hosts, load_topology
from emulator.topology.model import Topology
from tests.support.topologies import topology_error

TWO = "hosts: {from: agents, count: 2}\n"


def remote(name: str, *addresses: str, port: str = "eth1", rate_bps: int = 0, mtu: int = 0) -> JoinedAgent:
    return JoinedAgent(name, False, [AgentPort(port, addresses, rate_bps, mtu)])


PAIR = (remote("left", "198.18.0.1", rate_bps=25_000_000_000, mtu=9000), remote("right", "198.18.0.2"))


def load(folder: Path, text: str, *agents: JoinedAgent, ranks: int = 4, block: int = 3) -> Topology:
    (folder / "t.yaml").write_text(text)
    return load_topology(folder / "t.yaml", ranks=ranks, joined=agents, block=block)


def test_every_agent_is_a_host_that_it_serves(tmp_path: Path) -> None:
    topology = load(tmp_path, TWO, *PAIR)
    assert [host.name for host in topology.hosts] == ["left", "right"]
    assert topology.agents == {"left": "left", "right": "right"}
    assert topology.addresses == ("198.18.0.1", "198.18.0.1", "198.18.0.2", "198.18.0.2")
    assert [topology.rate_bps(rank) for rank in (0, 2)] == [25_000_000_000, None]
    assert topology.hosts[0].interfaces[0].mtu == 9000


def test_the_file_overrules_the_rate_and_limits_the_ranks(tmp_path: Path) -> None:
    topology = load(tmp_path, "hosts: {from: agents, count: 2, rate: 10Gbit, slots: 2}\n", *PAIR)
    assert [topology.rate_bps(rank) for rank in range(4)] == [10_000_000_000] * 4
    assert topology.host_index == (0, 0, 1, 1)


def test_the_file_chooses_the_interface_and_ipv4_is_preferred(tmp_path: Path) -> None:
    agent = JoinedAgent("a", False, [AgentPort("eth1", ["198.18.0.1"]), AgentPort("eth2", ["fd00::7", "198.18.0.7"])])
    topology = load(tmp_path, "hosts: {from: agents, count: 1, interface: eth2}\n", agent, ranks=1)
    assert topology.addresses == ("198.18.0.7",)


def test_agents_of_this_machine_have_loopback_addresses_of_their_own(tmp_path: Path) -> None:
    topology = load(tmp_path, TWO, *(JoinedAgent(name, True, []) for name in "ab"), ranks=3)
    assert topology.addresses == ("127.4.0.1", "127.4.0.2", "127.4.1.1")


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        (JoinedAgent("a", False, []), "agent a was started without --interface: start it with --interface NAME"),
        (
            JoinedAgent("a", False, [AgentPort("p", []), AgentPort("q", [])]),
            "agent a has p, q: name one of them in the topology: interface",
        ),
        (remote("a"), "agent a has no address at eth1: add one with `ip address add`"),
    ],
)
def test_an_agent_that_cannot_be_a_host_is_named(tmp_path: Path, agent: JoinedAgent, problem: str) -> None:
    with pytest.raises(PlanError, match=re.escape(problem)):
        load(tmp_path, TWO, agent, PAIR[1])


def test_another_interface_than_the_file_wants_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="agent left has eth1: start it with --interface eth9"):
        load(tmp_path, "hosts: {from: agents, count: 2, interface: eth9}\n", *PAIR)


def test_an_address_that_an_agent_tells_is_checked_as_one_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"8\.8\.8\.8"):
        load(tmp_path, TWO, remote("a", "8.8.8.8"), PAIR[1])
    with pytest.raises(TopologyError, match="right and a share addresses"):
        load(tmp_path, TWO, remote("a", "198.18.0.2"), PAIR[1])


def test_a_plan_has_stand_ins(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TWO)
    topology = load_topology(tmp_path / "t.yaml", ranks=2)
    assert topology.addresses == ("198.18.0.1", "198.18.0.2")
    assert "stand-ins" in topology.notes[0]


def test_how_many_agents_a_file_waits_for(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TWO)
    wanted = joining_hosts(tmp_path / "t.yaml")
    assert wanted.count == 2
    (tmp_path / "t.yaml").write_text("hosts: [{name: a, address: 10.0.0.1}]\n")
    assert joining_hosts(tmp_path / "t.yaml") is None


@pytest.mark.parametrize("more", ["agents: {a: b}\n", "links: [{endpoints: [a:p, b:p]}]\n"])
def test_what_would_name_hosts_is_refused(tmp_path: Path, more: str) -> None:
    with pytest.raises(TopologyError, match="cannot refer to hosts that come from agents"):
        load(tmp_path, TWO + more, *PAIR)


def test_a_mistake_in_the_file_is_named(tmp_path: Path) -> None:
    assert "count" in topology_error(tmp_path, "hosts: {from: agents}\n")
    assert "agents" in topology_error(tmp_path, "hosts: {from: nowhere, count: 2}\n")
