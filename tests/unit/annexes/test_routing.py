"""What FRR is told in the routers of a lab, and how it is started and awaited; nothing is made."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.annexes import routing
from emulator.annexes.routing import as_numbers, await_routes, daemon_batch, daemons, version
from emulator.device.lab.design import make_design
from emulator.device.lab.model import Design
from emulator.errors import HostError
from emulator.host.tools import CommandBatch
from emulator.topology.load import load_topology
from emulator.topology.network import Routing
from tests.support.labs import pretended
from tests.support.topologies import shipped_topology

BGPD = """hostname charkha-x-leaf1
router bgp 4200000001
 bgp router-id 169.254.0.2
 no bgp ebgp-requires-policy
 bgp bestpath as-path multipath-relax
 neighbor routers peer-group
 neighbor routers remote-as external
 neighbor routers advertisement-interval 0
 neighbor routers timers 3 9
 neighbor routers timers connect 1
 neighbor routers bfd profile lab
 neighbor 169.254.0.8 peer-group routers
 neighbor 169.254.0.10 peer-group routers
 address-family ipv4 unicast
  redistribute kernel
  maximum-paths 64"""
BFDD = """bfd
 profile lab
  detect-multiplier 3
  receive-interval 50
  transmit-interval 50"""
ZEBRA = """hostname charkha-x-leaf1
no zebra nexthop kernel enable"""
FOLDER = Path("/run/charkha/labs/x")


@pytest.fixture
def design() -> Design:
    return make_design(shipped_topology("leaf-spine-bgp"), "x")


def configured(design: Design, router: str) -> Mapping[str, str]:
    found = daemons(design.node(router), design, as_numbers(design)[router])
    return {Path(daemon).name: "\n".join(lines) for daemon, lines in found.items()}


def test_a_leaf_is_told_of_its_spines_by_address_and_what_to_announce(design: Design) -> None:
    assert list(configured(design, "leaf1").items()) == [("zebra", ZEBRA), ("bfdd", BFDD), ("bgpd", BGPD)]


def test_without_bfd_no_bfdd_runs_and_bgpd_asks_for_none(design: Design) -> None:
    plain = replace(design, routing=Routing("bgp"))
    assert configured(plain, "leaf1") == {
        "zebra": ZEBRA,
        "bgpd": BGPD.replace(" neighbor routers bfd profile lab\n", ""),
    }


def test_a_port_to_a_host_has_no_neighbour(design: Design) -> None:
    for router in ("leaf0", "spine0"):
        assert configured(design, router)["bgpd"].count("peer-group routers") == 2


def test_leaves_have_numbers_of_their_own_and_spines_share_one(design: Design) -> None:
    assert as_numbers(design) == {"leaf0": 4200000000, "leaf1": 4200000001, "spine0": 4200000002, "spine1": 4200000002}


def test_routers_without_hosts_share_a_number_only_with_the_same_neighbours(tmp_path: Path) -> None:
    names, ends = ("l0", "l1", "s0", "s1", "t0"), ("l0 s0", "l0 s1", "l1 s0", "l1 s1", "s0 t0")
    links = [f'  - {{endpoints: ["{one}:{other}", "{other}:{one}"]}}' for one, other in map(str.split, ends)]
    text = [
        "hosts: [{name: a, address: 198.18.0.1}, {name: b, address: 198.18.0.2}]",
        "routing: {protocol: bgp}",
        f"switches: [{', '.join(f'{{name: {name}, kind: router}}' for name in names)}]",
        *("links:", *links, '  - {endpoints: ["a:eth0", "l0:a"]}', '  - {endpoints: ["b:eth0", "l1:b"]}'),
    ]
    (tmp_path / "t.yaml").write_text("\n".join(text))
    numbers = as_numbers(make_design(load_topology(tmp_path / "t.yaml", ranks=0), "x"))
    assert len(set(numbers.values())) == len(names)


def test_a_daemon_sees_the_folder_of_its_router_where_it_writes(design: Design) -> None:
    words = list(daemon_batch(design.node("leaf0"), "/usr/lib/frr/bfdd", FOLDER).command)
    assert words[:6] == ["ip", "netns", "exec", "charkha-x-leaf0", "sh", "-c"]
    assert words[6].startswith('mount -n --bind "$0" /var/tmp && mount -n --bind "$0" /run && ')
    assert words[7:9] == [str(FOLDER), "/usr/lib/frr/bfdd"]
    files = ["-f", "/run/frr/bfdd.conf", "--log", "file:/run/frr/bfdd.log"]
    assert words[9:] == ["-d", "-P", "0", *files]  # no port of TCP


def test_where_frr_is_missing_its_package_is_named() -> None:
    with pretended(missing=["/usr/lib/frr/bgpd"]), pytest.raises(HostError) as told:
        version()
    assert str(told.value) == "/usr/lib/frr/bgpd is missing on this host: apt-get install frr"


def test_the_version_is_that_of_zebra() -> None:
    with pretended(lambda batch: "zebra version 8.4.4\nCopyright 1996-2005 Kunihiro Ishiguro, et al.\n"):
        assert version() == "8.4.4"


def answers(design: Design, *, without: str = "", session: str = "up") -> Callable[[CommandBatch], str]:
    """What commands print in a lab that has converged, but for the ways through a device."""

    def printed(batch: CommandBatch) -> str:
        node = next(node for node in design.nodes if node.namespace in batch.command)
        if "vtysh" in batch.command:
            return json.dumps([{"interface": port.device, "status": session} for port in node.ports])
        routes = []
        for route in node.routes:
            hops = [{"gateway": hop.address, "dev": hop.device} for hop in route.hops if hop.device != without]
            if route.is_learned and hops:
                ways = hops[0] if len(hops) == 1 else {"nexthops": hops}
                routes.append({"dst": route.prefix.removesuffix("/32"), **ways})
        return json.dumps(routes)

    return printed


def test_a_lab_is_up_when_every_router_has_all_ways_and_bfd_watches_them(
    design: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "CONVERGENCE_TIMEOUT_S", 0)
    with pretended(answers(design)):
        await_routes(design, FOLDER)
    missing = "has no route to 198.18.2.0/24 via u0, u1 after 0 s: a link is down, or FRR has ended; take the lab down"
    with pretended(answers(design, without="u1")), pytest.raises(HostError, match=f"router leaf0 {missing}"):
        await_routes(design, FOLDER)
    with pretended(answers(design, session="down")), pytest.raises(HostError, match="leaf0 has no BFD session at u0"):
        await_routes(design, FOLDER)
    with pretended(answers(design, session="down")):
        await_routes(replace(design, routing=Routing("bgp")), FOLDER)
    with pretended(lambda batch: ""), pytest.raises(HostError, match="leaf0 has no route"):
        await_routes(design, FOLDER)
