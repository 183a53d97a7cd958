"""What FRR is told in the routers of a lab, and how it is started and awaited; nothing is made."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.annexes import routing
from emulator.annexes.routing import as_numbers, await_routes, daemon_batch, daemons, start, version
from emulator.device.lab.design import make_design
from emulator.device.lab.model import Design, Hop
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
SHIPPED = Path(__file__).parents[3] / "topologies"
FOLDER = Path("/run/charkha/labs/x")


@pytest.fixture
def design() -> Design:
    return make_design(shipped_topology("leaf-spine-bgp"), "x")


def configured(design: Design, router: str) -> Mapping[str, str]:
    found = daemons(design.node(router), design, as_numbers(design)[router])
    return {Path(daemon).name: "\n".join(lines) for daemon, lines in found.items()}


def test_a_leaf_is_told_of_its_spines_by_address_and_what_to_announce(design: Design) -> None:
    assert list(configured(design, "leaf1").items()) == [("zebra", ZEBRA), ("bfdd", BFDD), ("bgpd", BGPD)]


IPV6 = """ exit-address-family
 address-family ipv6 unicast
  neighbor routers activate
  redistribute kernel
  maximum-paths 64"""


@pytest.fixture
def design_v6(tmp_path: Path) -> Design:
    text = (SHIPPED / "leaf-spine-bgp.yaml").read_text()
    (tmp_path / "v6.yaml").write_text(re.sub(r"198\.18\.(\d)\.0/24", r'"fd00:18:\1::/64"', text))
    return make_design(load_topology(tmp_path / "v6.yaml", ranks=0), "x")


def test_one_session_announces_routes_of_both_families(design: Design, design_v6: Design) -> None:
    found = configured(design_v6, "leaf1")
    assert found["bgpd"] == f"{BGPD}\n{IPV6}"
    assert {name: text for name, text in found.items() if name != "bgpd"} == {"zebra": ZEBRA, "bfdd": BFDD}
    port = design_v6.node("leaf1").port("u0")
    assert port.addresses == ["169.254.0.7 peer 169.254.0.8/32", "fd63:6861:726b::7 peer fd63:6861:726b::8/128"]
    hops = {route.prefix: route.hops for route in design_v6.node("leaf1").routes if route.is_learned}
    assert hops == {"fd00:18:1::/64": [Hop("u0", "fd63:6861:726b::8"), Hop("u1", "fd63:6861:726b::a")]}
    assert "peer fd63" not in str(design)


def test_daemons_read_their_files_whatever_the_umask(
    design: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "await_routes", lambda *_: None)
    monkeypatch.setattr(shutil, "chown", lambda *_: None)
    before = os.umask(0o077)
    try:
        with pretended():
            start(design, tmp_path)
    finally:
        os.umask(before)
    own = tmp_path / "charkha-x-leaf0"
    assert own.stat().st_mode & 0o055 == 0o055
    assert [one.name for one in own.glob("frr/*") if one.stat().st_mode & 0o044 == 0o044] == [
        one.name for one in own.glob("frr/*.conf")
    ]


def test_without_the_user_of_frr_its_package_is_asked_for(
    design: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chown(*_: object) -> None:
        raise LookupError("no such user: 'frr'")

    monkeypatch.setattr(shutil, "chown", chown)
    with pretended(), pytest.raises(HostError, match="FRR has no user frr on this host: install it as a package"):
        start(design, tmp_path)


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
    assert subprocess.run(["sh", "-n", "-c", words[6]], check=False).returncode == 0
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
    with pretended(lambda batch: "zebra version 10.2-dev"):
        assert version() == "10.2-dev"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("zebra version 7.4.2\n", "7.5 or later, here is 7.4.2: install a newer one"),
        ("Usage: zebra [OPTION]\n", "7.5 or later, /usr/lib/frr/zebra says 'Usage: zebra [OPTION]'"),
    ],
)
def test_an_old_version_is_refused(said: str, problem: str) -> None:
    with pretended(lambda batch: said), pytest.raises(HostError, match=re.escape(f"routers need FRR {problem}")):
        version()


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
        return json.dumps([one for one in routes if (":" in one["dst"]) is ("-6" in batch.command)])

    return printed


def test_a_lab_is_up_when_every_router_has_all_ways_and_bfd_watches_them(
    design: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "CONVERGENCE_TIMEOUT_S", 0)
    with pretended(answers(design)):
        await_routes(design, FOLDER)
    missing = (
        "has no route to 198.18.2.0/24 via u0, u1 after 0 s: a link is down, or frames are lost; take the lab down"
    )
    with pretended(answers(design, without="u1")), pytest.raises(HostError, match=f"router leaf0 {missing}"):
        await_routes(design, FOLDER)
    with pretended(answers(design, session="down")), pytest.raises(HostError, match="leaf0 has no BFD session at u0"):
        await_routes(design, FOLDER)
    with pretended(answers(design, session="down")):
        await_routes(replace(design, routing=Routing("bgp")), FOLDER)
    with pretended(lambda batch: ""), pytest.raises(HostError, match="leaf0 has no route"):
        await_routes(design, FOLDER)


def test_routes_of_ipv6_are_awaited_too(design_v6: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "CONVERGENCE_TIMEOUT_S", 0)
    with pretended(answers(design_v6)):
        await_routes(design_v6, FOLDER)
    with pretended(answers(design_v6, without="u1")), pytest.raises(HostError, match="no route to fd00:18:2::/64 via"):
        await_routes(design_v6, FOLDER)


def test_a_daemon_that_has_ended_is_named_at_once(design: Design, tmp_path: Path) -> None:
    seen = tmp_path / "charkha-x-leaf0" / "frr"
    seen.mkdir(parents=True)
    (seen / "zebra.pid").write_text(f"{os.getpid()}\n")  # another process has the number by now
    with pretended(answers(design)):
        await_routes(design, tmp_path)
    with pretended(answers(design, without="u1")), pytest.raises(HostError) as told:
        await_routes(design, tmp_path)
    assert str(told.value) == "zebra of router leaf0 has ended: take the lab down and up again"


@pytest.mark.parametrize(
    "said", ["% Unknown command: show bfd peers json", '[{"peer": "169.254.0.8"}]', '{"peers": []}', ""]
)
def test_an_answer_of_bfdd_that_nobody_understands_is_shown(
    design: Design, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "CONVERGENCE_TIMEOUT_S", 0)
    known = answers(design)
    with (
        pretended(lambda batch: said if "vtysh" in batch.command else known(batch)),
        pytest.raises(HostError, match=re.escape(f"leaf0 has no answer of bfdd that is understood ({said[:40]!r})")),
    ):
        await_routes(design, FOLDER)
