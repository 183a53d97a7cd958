"""Who plays which ranks, and who may be let in to do it."""

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.control.conversation import DomainPlace
from emulator.controller.assignment import agents_at, assign_ranks, domains_of, networks_beside
from emulator.controller.roster.listen_address import ListenAddress
from emulator.errors import PlanError
from emulator.topology.load import load_topology
from emulator.topology.model import Topology, default_loopback

RACK = """
hosts:
  - {name: h0, per_rank: 198.18.0.0/28, slots: 2}
  - {name: h1, addresses: [198.18.1.1, 198.18.1.2]}
  - {name: h2, per_rank: 198.18.2.0/28, slots: 2}
"""
TOKEN = "0123456789abcdef"


def _topology(folder: Path, more: str = "") -> Topology:
    (folder / "t.yaml").write_text(RACK + more)
    return load_topology(folder / "t.yaml", ranks=6)


def test_without_names_all_agents_are_local() -> None:
    assignment = assign_ranks(default_loopback(4), local_agents=3)
    assert assignment.ranks_of == {"agent-0": [0], "agent-1": [1], "agent-2": [2, 3]}
    assert assignment.remote == []


def test_named_agents_serve_their_hosts_and_local_ones_the_others(tmp_path: Path) -> None:
    assignment = assign_ranks(_topology(tmp_path, "agents: {h0: west, h2: west}"), local_agents=1)
    assert assignment.ranks_of == {"west": [0, 1, 4, 5], "agent-0": [2, 3]}
    assert assignment.remote == ["west"]


def test_by_hand_every_host_has_an_agent_of_its_name_unless_it_is_given_one(tmp_path: Path) -> None:
    assignment = assign_ranks(_topology(tmp_path, "agents: {h0: west}"), is_by_hand=True)
    assert assignment.ranks_of == {"west": [0, 1], "h1": [2, 3], "h2": [4, 5]}
    assert not assignment.local


def test_a_named_agent_may_not_be_called_as_local_ones_are(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="agent-0, the name of a local agent"):
        assign_ranks(_topology(tmp_path, "agents: {h0: agent-0}"))


def test_an_agent_learns_the_networks_of_the_other_ports(tmp_path: Path) -> None:
    topology = _topology(tmp_path)
    assert networks_beside(topology, [0, 1]) == ["198.18.1.1", "198.18.1.2", "198.18.2.0/28"]
    assert networks_beside(topology, [0, 1], alternate=True) == []


TWO_PORTS = """
hosts:
  - {name: h0, interfaces: [{name: eth0, per_rank: 198.18.0.0/28}, {name: eth1, per_rank: 198.18.10.0/28}]}
  - {name: h1, interfaces: [{name: eth0, per_rank: 198.18.1.0/28}, {name: eth1, addresses: [198.18.11.1, 198.18.11.2]}]}
"""


def test_networks_of_second_addresses_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TWO_PORTS)
    topology = load_topology(tmp_path / "t.yaml", ranks=2)
    assert networks_beside(topology, [0]) == ["198.18.1.0/28"]
    assert networks_beside(topology, [0], alternate=True) == ["198.18.11.1"]
    assert networks_beside(topology, [1], alternate=True) == ["198.18.10.0/28"]
    assert networks_beside(replace(topology, alternates=()), [0], alternate=True) == []


@pytest.mark.parametrize(
    ("target", "token", "problem"),
    [
        ("192.0.2.1:4790", None, "needs --identity FILE, or a token"),
        ("192.0.2.1", TOKEN, "give HOST:PORT"),
        ("192.0.2.1:http", TOKEN, "give HOST:PORT"),
        ("198.18.1.2:4790", TOKEN, "must not cross the DUT"),
    ],
)
def test_where_agents_dial_in_is_safe_or_refused(tmp_path: Path, target: str, token: str | None, problem: str) -> None:
    with pytest.raises(PlanError, match=problem):
        ListenAddress(target, token).check(_topology(tmp_path))


def test_a_unix_socket_needs_no_token_and_a_network_one_keeps_it_to_itself(tmp_path: Path) -> None:
    ListenAddress("unix:/run/charkha.sock").check(_topology(tmp_path))
    ListenAddress("192.0.2.1:4790", TOKEN).check(_topology(tmp_path))
    assert TOKEN not in repr(ListenAddress("192.0.2.1:4790", TOKEN))


def test_hosts_with_flows_alone_have_an_agent_too(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(RACK)
    topology = load_topology(tmp_path / "t.yaml", ranks=2)  # h2 has none
    local = assign_ranks(topology, local_agents=1, others=["h2"])
    assert local.ranks_of == {"agent-0": [0, 1]}
    assert agents_at("h2", local, topology) == agents_at("h0", local, topology) == ["agent-0"]
    apart = assign_ranks(topology, apart=["h0", "h1", "h2"], others=["h2"])
    assert apart.ranks_of == {"h0": [0], "h1": [1], "h2": []}
    assert agents_at("h2", apart, topology) == ["h2"]
    nobody = load_topology(tmp_path / "t.yaml", ranks=0)
    assert assign_ranks(nobody, others=["h2"]).ranks_of == {"agent-0": []}


def test_the_ranks_of_a_domain_share_an_agent(tmp_path: Path) -> None:
    domain = "domain: {rate: 450GB/s, latency: 2us}"
    hosts = [f"  - {{name: h{n}, per_rank: 198.18.{n}.0/28, {domain if n < 2 else 'slots: 4'}}}\n" for n in range(3)]
    (tmp_path / "t.yaml").write_text("hosts:\n" + "".join(hosts))
    topology = load_topology(tmp_path / "t.yaml", ranks=12)
    halves = assign_ranks(topology, local_agents=2)
    assert halves.ranks_of == {"agent-0": [0, 1, 2, 3, 4, 5, 6, 7], "agent-1": [8, 9, 10, 11]}
    many = assign_ranks(topology, local_agents=12)
    assert list(many.ranks_of.values()) == [[0, 1, 2, 3], [4, 5, 6, 7], [8], [9], [10], [11]]
    assert domains_of(topology, halves.ranks_of["agent-0"]) == [
        DomainPlace(list(range(first, first + 4)), 3_600 * 10**9, 2_000) for first in (0, 4)
    ]
    assert domains_of(topology, halves.ranks_of["agent-1"]) == []
    (tmp_path / "t.yaml").write_text("hosts:\n" + "".join(hosts) + "placement: round_robin\n")
    apart = load_topology(tmp_path / "t.yaml", ranks=6)
    assert assign_ranks(apart, local_agents=3).ranks_of == {"agent-0": [0, 3], "agent-1": [1, 4], "agent-2": [2, 5]}
