"""Ports that go down, by hand or by a profile, and what brings them and their routes back."""

from pathlib import Path

import pytest

from tests.support.command import COMMAND, ROOT, wait_for
from tests.support.full import variant
from tests.support.machine import Machine
from tests.support.namespaces import need_switch

TWO_HOSTS = ROOT / "topologies" / "two-hosts-switch.yaml"
LEAF_SPINE = ROOT / "topologies" / "leaf-spine-2x2.yaml"
UP_AGAIN = f"`charkha lab up {TWO_HOSTS}`"


def bench(topology: Path, *options: object, ranks: int = 4) -> tuple[object, ...]:
    sweep = ("bench", "all_reduce", "-n", ranks, "-b", "64K", "-e", "64K", "--topology", topology)
    return (*sweep, "--transport", "roce", "--warmup", 0, *options)


def set_link(host: Machine, node: str, device: str, state: str) -> None:
    host.succeed("lab", "exec", node, "ip", "link", "set", device, state)


def test_a_port_of_a_host_that_was_down_by_hand_gets_its_routes_back(host: Machine) -> None:
    host.raise_lab(TWO_HOSTS)
    set_link(host, "h0", "eth0", "down")
    refused = host.charkha(*bench(TWO_HOSTS, "--out", "down"))
    assert (refused.code, "port h0:eth0 of lab two-hosts-switch is down" in refused.error) == (3, True)
    assert UP_AGAIN in refused.error
    set_link(host, "h0", "eth0", "up")
    without_routes = host.charkha(*bench(TWO_HOSTS, "--out", "lost"))
    assert (without_routes.code, "has no route" in without_routes.error) == (2, True)
    assert UP_AGAIN in without_routes.error
    assert "has all its links and routes" in host.raise_lab(TWO_HOSTS)
    host.succeed(*bench(TWO_HOSTS, "--iterations", 1, "--out", "mended"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bridge", "ovs", "router"])
def test_up_brings_all_ports_up_again(host: Machine, kind: str) -> None:
    need_switch(kind)
    topology = host.folder / "two.yaml"
    topology.write_text(TWO_HOSTS.read_text().replace("kind: bridge", f"kind: {kind}"))
    host.raise_lab(topology)
    set_link(host, "sw0", "p1", "down")
    set_link(host, "h0", "eth0", "down")
    shown = host.charkha("lab", "status").stdout
    assert {line.split()[0]: line.split()[3] for line in shown.splitlines() if "<──>" in line} == {
        "p0": "no",
        "p1": "down",
        "h0:eth0": "down",
        "h1:eth0": "no",
    }
    refused = host.charkha(*bench(topology, "--out", "down"))
    assert (refused.code, "ports h0:eth0, sw0:p1 of lab two-hosts-switch are down" in refused.error) == (3, True)
    assert host.raise_lab(topology).endswith("Ports that were down: h0:eth0, sw0:p1\n")
    host.succeed(*bench(topology, "--iterations", 1, "--out", "mended"))


@variant
@pytest.mark.slow
def test_ports_of_a_router_that_are_down_at_overlapping_times_come_back_with_their_routes(host: Machine) -> None:
    host.raise_lab(LEAF_SPINE)
    routes = host.charkha("lab", "exec", "leaf0", "ip", "route").stdout
    flaps = (
        '{port: "leaf0:u0", state: down, start: 0.5, end: 1.5}',
        '{port: "leaf0:u1", state: down, start: 1, end: 2}',
    )
    (host.folder / "flaps.yaml").write_text(f"rules: [{', '.join(flaps)}]")
    options = ("--iterations", 60, "--profile", "flaps.yaml", "--qp-timeout", "nccl", "--out", "run")
    host.succeed(*bench(LEAF_SPINE, *options, ranks=8))
    assert host.charkha("lab", "exec", "leaf0", "ip", "route").stdout == routes


@pytest.mark.slow
def test_the_ports_that_a_killed_run_held_down_are_up_in_the_next_run(host: Machine) -> None:
    host.raise_lab(LEAF_SPINE)
    routes = host.charkha("lab", "exec", "leaf0", "ip", "route").stdout
    held = ('{port: "leaf0:u0", state: down, start: 0}', '{port: ["leaf0:p0", "leaf0:u1"], state: down, start: 0.1}')
    (host.folder / "down.yaml").write_text(f"rules: [{', '.join(held)}]")
    options = ("--iterations", 1_000_000, "--profile", "down.yaml", "--qp-timeout", "nccl", "--out", "killed")
    with host.started(*bench(LEAF_SPINE, *options, ranks=8)) as command:
        wait_for(lambda: "u0" not in host.charkha("lab", "exec", "leaf0", "ip", "route").stdout or None)
        wait_for(lambda: "p0" not in host.charkha("lab", "exec", "leaf0", "ip", "route").stdout or None)
        beside = host.charkha(*bench(LEAF_SPINE, "--out", "beside", ranks=8))
        assert (beside.code, "is applying profile down to lab leaf-spine-2x2" in beside.error) == (2, True)
        host.kill(command)
    host.succeed(*bench(LEAF_SPINE, "--iterations", 1, "--out", "next", ranks=8))
    assert host.charkha("lab", "exec", "leaf0", "ip", "route").stdout == routes


def test_a_lab_is_for_whoever_brought_it_up(host: Machine) -> None:
    host.raise_lab(TWO_HOSTS)
    quick = ("--iterations", 1, "--transport", "zmq")
    of_ann = ("env", "SUDO_UID=4242424", *COMMAND)

    def ask(*words: object) -> str:
        return host.run("sh", "-c", '"$@" 2>&1; echo "exit code $?"', "sh", *of_ann, *words)

    for named in ((), ("--lab", "two-hosts-switch")):
        refused = ask(*bench(TWO_HOSTS, "--profile", "fw-b", *named, "--out", "of-ann"))
        assert "lab two-hosts-switch belongs to root: bring up your own" in refused
        assert refused.endswith("exit code 2\n")
    assert "belongs to root: `charkha lab down two-hosts-switch`" in ask("lab", "down")
    assert "is up and belongs to root" in ask("lab", "up", TWO_HOSTS)
    host.run(*of_ann, "lab", "up", TWO_HOSTS, "--id", "ann")
    assert ask(*bench(TWO_HOSTS, *quick, "--out", "own")).endswith("exit code 0\n")
    host.charkha("lab", "down", "two-hosts-switch")
    refused_root = host.charkha(*bench(TWO_HOSTS, "--out", "root"))
    assert (refused_root.code, "lab ann belongs to user 4242424" in refused_root.error) == (2, True)
    host.succeed(*bench(TWO_HOSTS, *quick, "--lab", "ann", "--out", "root-named"))
