"""Algorithms that know the layout, on two hosts with a NIC at each of four rails, as the switches counted them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from tests.support.command import charkha
from tests.support.full import IS_FULL, measures
from tests.support.star_lab import Lab, raised, sent_bytes

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow]
RAILS = 4
RANKS = 2 * RAILS
ITERATIONS = 3
ALL_REDUCES = (("all_reduce", "hierarchical"), ("all_reduce", "ring:channels=4"))
CASES = (("all_to_all", "pxn"), *(ALL_REDUCES if IS_FULL else ()))


def two_hosts(rate: str) -> str:
    """Two hosts with a scale-up domain, four rails that a spine connects."""
    lines = ["name: rails", "placement: rail", "hosts:"]
    for host in (0, 1):
        ports = [f"{{name: eth{rail}, address: 198.18.{rail}.{host + 1}}}" for rail in range(RAILS)]
        lines += [f"  - name: h{host}", f"    interfaces: [{', '.join(ports)}]"]
        lines += ["    domain: {rate: 450GB/s, latency: 2us}"]
    switches = [*(f"rail{rail}" for rail in range(RAILS)), "spine0"]
    lines += ["switches:", *(f"  - {{name: {name}, kind: router}}" for name in switches), "links:"]
    for rail in range(RAILS):
        ends = [(f"h{host}:eth{rail}", f"rail{rail}:p{host}", rate) for host in (0, 1)]
        ends += [(f"rail{rail}:up", f"spine0:d{rail}", "1Gbit")]
        lines += [f'  - {{endpoints: ["{one}", "{other}"], rate: {at}, mtu: 9000}}' for one, other, at in ends]
    return "\n".join([*lines, f"dut: {{kind: fabric, nodes: [{', '.join(switches)}]}}", ""])


@pytest.fixture
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    with raised(tmp_path, two_hosts(request.param)) as one:
        yield one


@pytest.mark.parametrize("lab", ["1Gbit"], indirect=True)
def test_bytes_per_rail_are_the_closed_form_and_no_flow_changes_rails(lab: Lab) -> None:
    size = 1 << 20
    payload = {"pxn": size // 2, "hierarchical": size // RAILS, "ring:channels=4": 7 * size // 4 // RAILS}
    for collective, name in CASES:
        options = ("--algorithm", f"{collective}={name}", "--transport", "roce", "--iterations", ITERATIONS)
        run = lab.run(collective, "-n", RANKS, "-b", size, "-e", size, "--warmup", 0, *options, out=name)
        wire = [row for row in run.table(RunTable.FLOWS).to_pylist() if row["medium"] == "wire" and row["bytes"]]
        expected = ITERATIONS * payload[name]
        pairs = {(row["src"], row["dst"]): row["bytes"] for row in wire}
        assert pairs == {(rank, (rank + RAILS) % RANKS): expected for rank in range(RANKS)}
        if name == "pxn":
            assert {row["messages"] for row in wire} == {ITERATIONS}
        sent = sent_bytes(run)
        assert {sent[f"rail{rail}:up"] for rail in range(RAILS)} == {0}
        resent = sum(row["retransmits"] or 0 for row in wire) * 5000
        for port in (f"rail{rail}:p{host}" for rail in range(RAILS) for host in (0, 1)):
            assert expected < sent[port] < 1.03 * expected + resent


@measures
@pytest.mark.timeout(300)
@pytest.mark.parametrize("lab", ["20Mbit"], indirect=True)
def test_hierarchical_beats_a_flat_ring_as_planned(lab: Lab) -> None:
    size = ("-n", RANKS, "-b", "24M")
    planned, measured = {}, {}
    for name, iterations in {"hierarchical": 6, "ring": 2}.items():
        how = ("--algorithm", f"all_reduce={name}", "--transport", "zmq")
        what = ("--collective", "all_reduce", *size, *how, "--topology", "lab.yaml")
        plan = charkha("plan", *what, "--json", cwd=lab.folder)
        planned[name] = json.loads(plan.stdout)["operations"][0]["ideal_ns"]["links"]
        run = lab.run("all_reduce", *size, "-e", "24M", *how, "--warmup", 0, "--iterations", iterations, out=name)
        measured[name] = min(cct_ns(run))  # what else the machine does only adds to it
        print(f"{name}: planned {planned[name] / 1e9:.3f} s, measured {measured[name] / 1e9:.3f} s")
    assert planned["ring"] / planned["hierarchical"] == pytest.approx(RANKS - 1, rel=0.001)
    assert measured["ring"] / measured["hierarchical"] == pytest.approx(RANKS - 1, rel=0.05)


def cct_ns(run: Run) -> list[int]:
    """Of each iteration."""
    times: dict[int, list[tuple[int, int]]] = {}
    for row in run.table(RunTable.SAMPLES).to_pylist():
        times.setdefault(row["iteration"], []).append((row["post_ns"], row["done_ns"]))
    return [max(done for _, done in one) - max(post for post, _ in one) for one in times.values()]
