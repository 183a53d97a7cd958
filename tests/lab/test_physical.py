"""Agents by hand on servers: control over the management network, traffic over the interface under test."""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.units import NS_PER_S
from tests.support.command import Finished, charkha, started, succeed, wait_for
from tests.support.full import IS_FULL, variant
from tests.support.servers import Rack, rack

AHEAD_S = 7_000
OTHER_CLOCK = ("unshare", "--time", "--monotonic", str(AHEAD_S))


@pytest.fixture
def two(lab_host: None, tmp_path: Path) -> Iterator[Rack]:
    with rack(2, tmp_path) as servers:
        yield servers


def sweep(servers: Rack, *options: object, ranks: int = 4, out: str = "run") -> Sequence[object]:
    """The command of a sweep of one size."""
    command = ("bench", "all_reduce", "-n", ranks, "-b", "1M", "-e", "1M", "--iterations", 3)
    where = ("--topology", servers.topology(ranks_each=2), "--listen", servers.controller, "--insecure", "--out", out)
    return *command, *where, "--token-file", servers.token_file, *options


def bench(servers: Rack, *options: object, ranks: int = 4, out: str = "run") -> Finished:
    """The sweep on the first server."""
    command = sweep(servers, *options, ranks=ranks, out=out)
    return charkha(*command, cwd=servers.folder, prefix=servers.servers[0].prefix)


@contextmanager
def waiting(servers: Rack) -> Iterator[None]:
    """The sweep on the first server, which waits for the last agent that it needs; it is to end well."""
    with started(*sweep(servers), cwd=servers.folder, prefix=servers.servers[0].prefix) as command:
        yield
        with servers.agent(1):
            assert command.finish().code == 0


def manifest(servers: Rack, out: str = "run") -> dict[str, Any]:
    return json.loads((servers.folder / out / "manifest.json").read_text())


@pytest.mark.slow
def test_one_run_after_another_crosses_the_dut_on_one_clock_and_leaves_nothing(two: Rack) -> None:
    with two.agent(0), two.agent(1, before=OTHER_CLOCK) as far:
        for transport in ("zmq", "roce"):
            controlled, carried = two.carried_bytes("mgmt"), two.carried_bytes("dut")
            finished = bench(two, "--transport", transport, out=transport)
            assert finished.code == 0, finished.stderr
            assert "waiting for agents s0, s1 to connect" in finished.stderr
            # A ring of four, two a server: each server sends 1.5 arrays across, and there were four iterations.
            assert two.carried_bytes("dut") - carried > 4 * 2 * 1.5 * (1 << 20)
            assert two.carried_bytes("mgmt") - controlled < 1 << 20
            near_clock, far_clock = _clocks(manifest(two, transport))
            assert near_clock == (0, 0)
            assert abs(far_clock[0] - AHEAD_S * NS_PER_S) <= far_clock[1]
            assert 0 < far_clock[1] < NS_PER_S
            assert manifest(two, transport)["clock"]["error_ns"] == far_clock[1]
            far.says("the run is over")
        assert two.addresses(0) == two.addresses(1) == {}
        assert "198.18" not in two.servers[1].run("ip", "route", "show")


def _clocks(document: dict[str, Any]) -> list[tuple[int, int]]:
    hosts = sorted(document["hosts"], key=lambda host: host["agent"])
    return [(host["clock_offset_ns"], host["clock_error_ns"]) for host in hosts]


@pytest.mark.slow
def test_a_killed_agent_is_named_the_others_stop_and_its_addresses_expire(two: Rack) -> None:
    trace = two.folder / "trace"
    generated = ("trace", "generate", "collective", "all_reduce", "-n", 4, "-b", "4M", "--count", 400, "--out", trace)
    succeed(*generated, cwd=two.folder)
    where = ("--topology", two.topology(ranks_each=2), *two.listening)
    with two.agent(0) as near, two.agent(1) as far:
        prefix = two.servers[0].prefix
        with started("run", trace, *where, "--iterations", 50, cwd=two.folder, prefix=prefix) as run:
            begun = two.carried_bytes("dut") + (16 << 20)
            wait_for(lambda: two.carried_bytes("dut") > begun or None)
            far.kill()
            finished = run.finish()
        assert finished.code == 1
        assert "agent s1 is lost (its connection ended); its ranks: 2-3" in finished.stderr
        near.says("waiting for a run")
        still = two.carried_bytes("dut")
        assert two.addresses(0) == {}
        left = two.addresses(1)
        assert list(left) == ["198.18.2.1", "198.18.2.2"]
        assert all(0 < entry["valid_life_time"] <= 180 and entry["label"] == "eth1:lease" for entry in left.values())
        assert two.carried_bytes("dut") - still < 10_000  # neighbours may still ask for each other
        with two.agent(1):  # started anew, it takes its addresses over
            assert bench(two).code == 0
        assert two.addresses(1) == {}


@pytest.mark.skipif(not IS_FULL, reason="one more run: CHARKHA_FULL=1")
@pytest.mark.parametrize(
    ("rights", "has_addresses"),
    [("-all", True), ("-all,+net_admin", False)],
    ids=["none, where the addresses are there", "to add addresses"],
)
def test_what_pods_may_do_is_enough(two: Rack, rights: str, has_addresses: bool) -> None:
    as_pod = ("setpriv", "--no-new-privs", f"--bounding-set={rights}", f"--inh-caps={rights}")
    if has_addresses:
        for server, rank in itertools.product((0, 1), (1, 2)):
            address = f"198.18.{server + 1}.{rank}/15"
            two.servers[server].run("ip", "address", "add", address, "dev", "eth1")
    with two.agent(0, before=as_pod), two.agent(1, before=as_pod):
        finished = bench(two)
    assert finished.code == 0, finished.stderr
    assert len(two.addresses(0)) == (2 if has_addresses else 0)


def test_who_is_missing_is_named(two: Rack) -> None:
    with two.agent(0) as near:
        near.says("waiting for a run")
        finished = bench(two, "--join-timeout", 4)
    assert finished.code == 1
    assert "waiting for agents s0, s1 to connect to 10.99.0.1:4790" in finished.stderr
    assert "agents to join: s1" in finished.stderr


def test_an_agent_that_is_not_needed_waits_for_the_next_run(two: Rack) -> None:
    with two.agent(0), two.agent(1, "--interface", "eth1", "--name", "spare") as spare, waiting(two):
        spare.says("waiting for the next run: agent 'spare' is not part of this run")


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (("--interface", "mgmt"), 3, "leaves through mgmt, which is under test"),
        (("--interface", "eth7"), 3, "there is no interface eth7 on this host"),
        (("--interface", "eth1", "--tls-ca", "token"), 2, "token: is not a PEM file"),
    ],
)
def test_an_agent_refuses_what_is_not_safe(two: Rack, options: Sequence[object], code: int, problem: str) -> None:
    with two.agent(1, *options) as agent:
        finished = agent.command.finish()
    assert finished.code == code
    assert problem in finished.stderr


def test_a_wrong_token_ends_the_agent_and_not_the_run(two: Rack) -> None:
    (two.folder / "guess").write_text("a-guess-for-the-tests")
    guess = ("--interface", "eth1", "--token-file", two.folder / "guess")
    with two.agent(0), two.agent(1, *guess) as stranger, waiting(two):
        finished = stranger.command.finish()
    assert finished.code == 1
    assert "the token is not the controller's" in finished.stderr


def test_without_the_right_to_add_addresses_the_command_that_does_is_named(two: Rack) -> None:
    unable = ("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin")
    with two.agent(0), two.agent(1, before=unable):
        finished = bench(two)
        assert finished.code == 1
        assert "agent s1: `ip address replace 198.18.2.1/32 dev eth1" in finished.stderr
        assert "CAP_NET_ADMIN" in finished.stderr
        two.servers[1].run("ip", "address", "add", "198.18.2.1/16", "dev", "eth1")
        two.servers[1].run("ip", "address", "add", "198.18.2.2/16", "dev", "eth1")
        second = bench(two, out="second")
        assert second.code == 0, second.stderr
    assert list(two.addresses(1)) == ["198.18.2.1", "198.18.2.2"]  # they were not ours


@pytest.mark.slow
def test_calibrate_says_how_well_the_clocks_of_agents_are_known(two: Rack) -> None:
    where = ("--topology", two.topology(ranks_each=2), *two.listening)
    with two.agent(0), two.agent(1, before=OTHER_CLOCK):
        command = ("agent", "calibrate", *where, "--transport", "zmq", "--calibration", "c.json", "--json")
        finished = charkha(*command, cwd=two.folder, prefix=two.servers[0].prefix)
    assert finished.code == 0, finished.stderr
    near, far = sorted(json.loads(finished.stdout)["clocks"], key=lambda clock: clock["agent"])
    assert (near["offset_ns"], near["error_ns"]) == (0, 0)
    assert abs(far["offset_ns"] - AHEAD_S * NS_PER_S) <= far["error_ns"] < NS_PER_S


@variant
@pytest.mark.slow
def test_calibrate_for_a_lab_measures_over_cables_and_leaves_nothing(lab_host: None, tmp_path: Path) -> None:
    hosts = [{"name": f"h{at}", "per_rank": f"198.18.{at + 1}.0/24"} for at in range(2)]
    links = [{"endpoints": [f"h{at}:eth0", f"sw:p{at}"], "mtu": 1500, "rate": "1Gbit"} for at in range(2)]
    topology = {"hosts": hosts, "switches": [{"name": "sw", "kind": "bridge"}], "links": links}
    (tmp_path / "t.yaml").write_text(json.dumps(topology))
    command = ("agent", "calibrate", "--topology", "t.yaml", "--transport", "roce", "--calibration", "c.json", "--json")
    with started(*command, cwd=tmp_path) as running:
        namespaces = f"charkha-calibrate-{running.process.pid}-"
        finished = running.finish()
    assert finished.code == 0, finished.stderr
    document = json.loads(finished.stdout)
    assert document["where"] == "cables between namespaces"
    assert document["transports"][0]["parameters"]["roce.path_mtu"] == 1024  # what fits an MTU of 1500
    assert not [path for path in Path("/run/netns").iterdir() if path.name.startswith(namespaces)]


@pytest.mark.slow
def test_ranks_with_ipv6_addresses_come_and_go_too(two: Rack) -> None:
    path = two.topology(ranks_each=2)
    document = json.loads(path.read_text())
    for number, host in enumerate(document["hosts"]):
        host["interfaces"][0]["per_rank"] = f"2001:db8:{number}::/120"
    path.write_text(json.dumps(document))
    with two.agent(0) as near, two.agent(1):
        command = ("bench", "all_reduce", "-n", 4, "-b", "64K", "-e", "64K", "--iterations", 1, "--topology", path)
        where = (*two.listening, "--transport", "roce")
        finished = charkha(*command, *where, cwd=two.folder, prefix=two.servers[0].prefix)
        near.says("the run is over")
        assert finished.code == 0, finished.stderr
        assert "2001:db8" not in two.servers[0].run("ip", "-6", "address", "show", "dev", "eth1")
        assert "2001:db8" not in two.servers[0].run("ip", "-6", "route", "show", "dev", "eth1")


TWO_PORTS = """name: two-ports
hosts:
  - {name: s0, interfaces: [{name: eth1, per_rank: "fd00:18:1::/64"}, {name: eth2, per_rank: "fd00:18:11::/64"}]}
  - {name: s1, interfaces: [{name: eth1, per_rank: "fd00:18:2::/64"}, {name: eth2, per_rank: "fd00:18:12::/64"}]}
switches: [{name: dut, kind: physical}, {name: twin, kind: physical}]
links:
  - {endpoints: ["s0:eth1", "dut:s0"], mtu: 1500}
  - {endpoints: ["s1:eth1", "dut:s1"], mtu: 1500}
  - {endpoints: ["s0:eth2", "twin:s0"], mtu: 1500}
  - {endpoints: ["s1:eth2", "twin:s1"], mtu: 1500}
dut: {kind: fabric, nodes: [dut, twin]}
agents: {s0: s0, s1: s1}
"""


@variant
@pytest.mark.slow
def test_agents_by_hand_reach_second_addresses_and_leave_no_routes(lab_host: None, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(TWO_PORTS)
    ports = ("--interface", "eth1", "--interface", "eth2")
    with rack(2, tmp_path, duts=("dut", "twin")) as servers:
        shaped = ("rate", "200mbit", "burst", "64k", "latency", "50ms")
        servers.middle.run("tc", "qdisc", "add", "dev", "dut1", "root", "tbf", *shaped)
        what = ("bench", "all_reduce", "-n", 2, "-b", "8M", "-e", "8M", "--iterations", 12, "--warmup", 0)
        how = ("--transport", "roce", "--survive", "--qp-timeout", 13, "--retry-count", 2, "--topology", "two.yaml")
        prefix = servers.servers[0].prefix
        played = started(*what, *how, *servers.listening, "--out", "run", cwd=tmp_path, prefix=prefix)
        with servers.agent(0, *ports), servers.agent(1, *ports), played as run:
            wait_for(lambda: servers.carried_bytes("dut") > 16 << 20 or run.process.poll())
            routes = servers.servers[1].run("ip", "-6", "route", "show", "proto", "196")
            servers.middle.run("ip", "link", "set", "dut1", "down")
            wait_for(lambda: servers.carried_bytes("twin") > 4 << 20 or run.process.poll())
            servers.middle.run("ip", "link", "set", "dut1", "up")
            finished = run.finish()
        assert finished.code == 0, finished.stderr
        assert re.findall(r"(\S+) dev (eth\d) src (\S+) metric (\d+)", routes) == [
            ("fd00:18:1::/64", "eth1", "fd00:18:2::1", "1024"),
            ("fd00:18:11::/64", "eth2", "fd00:18:12::1", "2048"),
        ]
        for place in servers.servers:
            assert "proto 196" not in place.run("ip", "-6", "route", "show")
            assert "fd00" not in place.run("ip", "-6", "address", "show")
    table = read_run(tmp_path / "run").table(RunTable.EVENTS)
    assert {row["edge"] for row in table.to_pylist()} == {"begin", "end"}
