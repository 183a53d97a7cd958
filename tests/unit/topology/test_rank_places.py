"""Host, interface and address of every rank."""

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.errors import PlanError
from emulator.topology.load import load_topology
from emulator.topology.model import Topology, joined
from tests.support.topologies import shipped_topology, topology_error, write_topology

TWO = """hosts:
  - {name: h0, address: 10.0.0.1}
  - {name: h1, interfaces: [{name: eth0, address: 10.0.0.2}, {name: eth1, addresses: [10.0.0.3, 10.0.0.4]}]}
"""
ONE = "hosts:\n- {name: h0, address: 10.0.0.1, slots: 3}\n"


def places(topology: Topology) -> list[str]:
    return [f"{topology.host_of(rank).name}:{topology.interface_of(rank).name}" for rank in range(topology.ranks)]


def test_ranks_of_a_host_take_its_interfaces_in_turn_and_skip_full_ones(tmp_path: Path) -> None:
    topology = write_topology(tmp_path, TWO.replace("10.0.0.1}", "10.0.0.1, slots: 1}"), ranks=6)
    assert places(topology) == ["h0:eth0", "h1:eth0", "h1:eth1", "h1:eth0", "h1:eth1", "h1:eth0"]
    assert topology.addresses == ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.2", "10.0.0.4", "10.0.0.2")
    assert topology.port_of(4) == (1, 1)


def test_a_prefix_gives_addresses_from_its_first_usable_one(tmp_path: Path) -> None:
    text = "hosts:\n- {name: a, per_rank: 192.168.7.0/24}\n- {name: b, per_rank: 'fd00::/64'}\n"
    assert write_topology(tmp_path, text, ranks=4).addresses == ("192.168.7.1", "192.168.7.2", "fd00::1", "fd00::2")


@pytest.mark.parametrize(
    ("placement", "hosts"),
    [
        ("block", "h0 h0 h1 h1"),
        ("round_robin", "h0 h1 h0 h1"),
        ("rail", "h0 h0 h1 h1"),
        ("{0: h1, 1: h0, 2: h0, 3: h1, 9: h0}", "h1 h0 h0 h1"),
    ],
)
def test_the_file_chooses_the_policy(tmp_path: Path, placement: str, hosts: str) -> None:
    text = "hosts:\n- {name: h0, per_rank: 10.0.1.0/24}\n- {name: h1, per_rank: 10.0.2.0/24}\n"
    topology = write_topology(tmp_path, f"{text}placement: {placement}\n", ranks=4)
    assert [topology.host_of(rank).name for rank in range(4)] == hosts.split()
    assert len(set(topology.addresses)) == 4


def test_a_mapping_may_name_the_interface(tmp_path: Path) -> None:
    topology = write_topology(tmp_path, TWO + "placement: {0: 'h1:eth1', 1: h1, 2: 'h1:eth1'}\n", ranks=3)
    assert places(topology) == ["h1:eth1", "h1:eth0", "h1:eth1"]
    with pytest.raises(PlanError, match=r"t\.yaml: h1:eth1 has addresses for only 2 ranks"):
        write_topology(tmp_path, TWO + "placement: {0: 'h1:eth1', 1: 'h1:eth1', 2: 'h1:eth1'}\n", ranks=3)


def test_an_interface_that_a_mapping_names_does_not_shift_the_turn_of_the_others(tmp_path: Path) -> None:
    topology = write_topology(tmp_path, TWO + "placement: {0: 'h1:eth0', 1: h1, 2: h1}\n", ranks=3)
    assert places(topology) == ["h1:eth0", "h1:eth0", "h1:eth1"]


@pytest.mark.parametrize(("ranks", "first_of_h1"), [(3, None), (6, 4), (16, 4), (24, 8)])
def test_on_rails_a_rank_modulo_interfaces_is_its_rail(ranks: int, first_of_h1: int | None) -> None:
    topology = shipped_topology("rail-4x4", ranks=ranks)
    assert [topology.port_of(rank)[1] for rank in range(ranks)] == [rank % 4 for rank in range(ranks)]
    hosts = [topology.host_of(rank).name for rank in range(ranks)]
    assert (hosts.index("h1") if "h1" in hosts else None) == first_of_h1
    assert hosts == sorted(hosts)


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ("diagonal", "placement: is block, round_robin, rail or a mapping from rank to host"),
        ("7", "placement: expected text | a mapping, got int"),
        ("{x: h0}", "placement.x: 'x' is not a rank: write 0, 1, 2 and so on"),
        ("{-1: h0}", "placement.-1: '-1' is not a rank: write 0, 1, 2 and so on"),
        ("{'01': h0}", "placement.01: '01' is not a rank: write 0, 1, 2 and so on"),
        ("{0: h0, 1: h7}", "placement.1: there is no host 'h7'; hosts: h0"),
        ("{0: 'h0:eth9'}", "placement.0: host h0 has no interface 'eth9'"),
    ],
)
def test_a_wrong_placement_is_reported_with_its_key(tmp_path: Path, placement: str, message: str) -> None:
    assert topology_error(tmp_path, f"{ONE}placement: {placement}\n") == f"t.yaml:3, {message}"


@pytest.mark.parametrize(
    ("text", "ranks", "problem"),
    [
        (ONE, 4, "the trace has 4 ranks, but the hosts have room for only 3: add hosts or slots"),
        ("hosts:\n- {name: a, per_rank: 10.0.0.0/30}\n", 3, "but the hosts have room for only 2"),
        (ONE + "placement: {0: h0}\n", 2, "rank 1 has no host"),
        (ONE + "placement: {0: h0, 1: h0, 2: h0, 3: h0}\n", 4, r"puts 4 ranks on hosts\[0\], which has room for 3"),
    ],
)
def test_too_few_slots_are_reported_with_the_file(tmp_path: Path, text: str, ranks: int, problem: str) -> None:
    with pytest.raises(PlanError, match=rf"t\.yaml: .*{problem}"):
        write_topology(tmp_path, text, ranks=ranks)


STORAGE = """hosts:
  - {name: s0, address: 10.0.1.1, storage: true}
  - {name: h0, per_rank: 10.0.0.0/28}
  - name: s1
    storage: true
    interfaces: [{name: eth0, address: 10.0.1.2}, {name: eth1, addresses: [10.0.1.3, 10.0.1.4]}]
  - {name: h1, per_rank: 10.0.0.16/28, slots: 2}
"""


@pytest.mark.parametrize(
    ("placement", "hosts"), [("block", "h0 h0 h1 h1"), ("round_robin", "h0 h1 h0 h1"), ("rail", "h0 h0 h1 h1")]
)
def test_storage_hosts_take_no_ranks_and_have_an_endpoint_at_each_interface(
    tmp_path: Path, placement: str, hosts: str
) -> None:
    topology = write_topology(tmp_path, f"{STORAGE}placement: {placement}\n", ranks=4)
    assert [topology.host_of(rank).name for rank in range(topology.ranks)] == hosts.split()
    assert (topology.ranks, topology.storage_endpoints, topology.endpoints) == (4, 3, 7)
    endpoints = range(topology.ranks, topology.endpoints)
    assert [topology.label_of(one) for one in endpoints] == ["s0:eth0", "s1:eth0", "s1:eth1"]
    assert [topology.address_of(one) for one in endpoints] == ["10.0.1.1", "10.0.1.2", "10.0.1.3"]
    assert topology.label_of(3) == "rank 3"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (STORAGE + "placement: {0: s0}\n", "placement.0: s0 is a storage host, which has no ranks"),
        ("hosts:\n- {name: s, address: 10.0.0.1, storage: true}\n", "hosts: every host is a storage host"),
        (ONE.replace("slots: 3", "slots: 3, storage: true"), "a storage host has no ranks: delete slots"),
    ],
)
def test_ranks_on_storage_hosts_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in topology_error(tmp_path, text)


THREE = """hosts:
  - {name: h0, per_rank: 198.18.1.0/24}
  - {name: h1, addresses: [198.18.2.1, 198.18.2.2, 198.18.2.3]}
  - {name: h2, address: 198.18.3.1}
  - {name: s0, address: 198.18.4.1, storage: true}
"""


def job_of(folder: Path, ranks: int, *hosts: str, share: tuple[int, int] = (0, 1)) -> Topology:
    (folder / "t.yaml").write_text(THREE)
    return load_topology(folder / "t.yaml", ranks=ranks, hosts=hosts or None, address_share=share)


def test_a_job_is_placed_on_its_hosts_alone(tmp_path: Path) -> None:
    topology = job_of(tmp_path, 4, "h2", "h0")
    assert places(topology) == ["h0:eth0", "h0:eth0", "h2:eth0", "h2:eth0"]
    assert [host.name for host in topology.hosts] == ["h0", "h1", "h2", "s0"]


def test_jobs_on_the_same_hosts_never_share_an_address_of_which_there_are_several(tmp_path: Path) -> None:
    first, second = (job_of(tmp_path, 2, "h0", "h1", share=(number, 2)) for number in range(2))
    assert first.addresses[:2] == ("198.18.1.1", "198.18.2.1")
    assert second.addresses[:2] == ("198.18.1.2", "198.18.2.2")
    assert joined([first, second]).addresses == [*first.addresses, *second.addresses]


def test_a_share_of_the_addresses_has_room_for_so_many_ranks(tmp_path: Path) -> None:
    assert job_of(tmp_path, 2, "h1", share=(0, 2)).addresses[:2] == ("198.18.2.1", "198.18.2.3")
    with pytest.raises(PlanError, match="but the hosts have room for only 1"):
        job_of(tmp_path, 2, "h1", share=(1, 2))


@pytest.mark.parametrize(("host", "problem"), [("h7", "only h0, h1, h2, s0"), ("s0", "has no ranks")])
def test_a_host_that_takes_no_ranks_is_refused(tmp_path: Path, host: str, problem: str) -> None:
    with pytest.raises(PlanError, match=problem):
        job_of(tmp_path, 1, host)


TWO_PORTS = """hosts:
  - name: h0
    interfaces: [{name: eth0, addresses: [198.18.1.1, 198.18.1.2]}, {name: eth1, addresses: [198.18.2.1, 198.18.2.2]}]
  - name: h1
    interfaces: [{name: eth0, address: 198.18.1.3}, {name: eth1, per_rank: 198.18.3.0/24}]
  - {name: h2, per_rank: 198.18.4.0/24}
"""


def second_addresses(folder: Path, placement: str, share: tuple[int, int] = (0, 1)) -> list[tuple[str, str | None]]:
    (folder / "t.yaml").write_text(f"{TWO_PORTS}placement: {placement}\n")
    topology = load_topology(folder / "t.yaml", ranks=placement.count(",") + 1, address_share=share)
    ranks = range(topology.ranks)
    assert all(topology.alternate_interface_of(one).name != topology.interface_of(one).name for one in ranks[:2])
    return [(topology.address_of(one), topology.alternate_of(one)) for one in ranks]


def test_the_second_address_of_a_rank_is_a_free_one_of_the_next_interface(tmp_path: Path) -> None:
    assert second_addresses(tmp_path, "{0: h0, 1: h0, 2: h1, 3: h2}") == [
        ("198.18.1.1", "198.18.2.2"),
        ("198.18.2.1", "198.18.1.2"),
        ("198.18.1.3", "198.18.3.1"),
        ("198.18.4.1", None),
    ]


def test_an_address_that_a_rank_has_is_nobodys_second_one(tmp_path: Path) -> None:
    found = second_addresses(tmp_path, '{0: "h1:eth1", 1: "h1:eth1", 2: "h0:eth0", 3: "h0:eth0", 4: "h0:eth1"}')
    assert [second for _, second in found] == ["198.18.1.3", None, "198.18.2.2", None, None]


def test_jobs_that_share_addresses_share_second_ones_as_well(tmp_path: Path) -> None:
    first, second = (second_addresses(tmp_path, "{0: h0}", (at, 2)) for at in range(2))
    assert (first, second) == ([("198.18.1.1", "198.18.2.1")], [("198.18.1.2", "198.18.2.2")])


def test_second_addresses_of_several_jobs_stay_with_their_ranks(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TWO_PORTS)
    one = load_topology(tmp_path / "t.yaml", ranks=1)
    both = joined([replace(one, alternates=()), one])
    assert [both.alternate_of(rank) for rank in range(2)] == [None, "198.18.2.1"]
