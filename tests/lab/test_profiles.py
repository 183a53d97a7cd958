"""Firmware profiles and scenarios on real runs in a lab."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable
from tests.support.fairness import shares
from tests.support.full import measures
from tests.support.star_lab import Lab, raised, star

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow]
LEAF_SPINE = Path(__file__).parents[2] / "topologies" / "leaf-spine-2x2.yaml"
LOST = ("profile_drops", "qdisc_drops", "rx_dropped", "tx_dropped")


@pytest.fixture
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    with raised(tmp_path, request.param) as one:
        yield one


def grown(run: Run) -> dict[tuple[str, str, str], int]:
    """(device, interface, counter) → last value minus first."""
    series: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for row in run.table(RunTable.COUNTERS).to_pylist():
        series[row["device"], row["interface"], row["counter"]].append(row["value"])
    return {name: values[-1] - values[0] for name, values in series.items()}


def total(run: Run, counter: str, devices: str) -> int:
    """Growth of a counter, summed over all devices whose names begin with a prefix."""
    return sum(
        value for (device, _, name), value in grown(run).items() if device.startswith(devices) and name == counter
    )


def retransmits(run: Run) -> int:
    return sum(row["retransmits"] or 0 for row in run.table(RunTable.FLOWS).to_pylist())


def iteration_ns(run: Run) -> list[int]:
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in run.table(RunTable.ITERATIONS).to_pylist():
        spans[row["iteration"]].append((row["start_ns"], row["end_ns"]))
    return [max(end for _, end in one) - min(start for start, _ in one) for _, one in sorted(spans.items())]


@pytest.mark.parametrize("lab", [star(2, rate="100Mbit", mtu=1500)], indirect=True)
def test_exactly_one_packet_is_lost_and_sent_again(lab: Lab) -> None:
    rule = "rules:\n  - {name: one, drop: {once: true}, opcode: middle, psn: 0-16777215}\n"
    (lab.folder / "once.yaml").write_text(rule)
    run = lab.run("all_reduce", "-n", 2, "-b", "200K", "-e", "200K", "--profile", "once.yaml", out="once")
    assert grown(run)["sw0", "", "profile_drops[one]"] == 1
    assert retransmits(run) > 0


@pytest.mark.parametrize("lab", [star(2, rate="200Mbit", mtu=1500)], indirect=True, ids=["two-hosts"])
def test_the_frames_that_fw_b_drops_are_those_that_are_missing(lab: Lab) -> None:
    sweep = ("-n", 2, "-b", "8M", "-e", "8M", "--iterations", 3, "--qp-timeout")
    clean = lab.run("all_reduce", *sweep, 22, "--profile", "fw-a", out="a")  # no timeout ends, however busy the host is
    lossy = lab.run("all_reduce", *sweep, 18, "--profile", "fw-b", out="b")
    for run in (clean, lossy):
        lost = sum(total(run, name, "sw0") for name in LOST)
        assert total(run, "tx_packets", "h") - total(run, "rx_packets", "h") == lost
    assert retransmits(clean) == total(clean, "profile_drops", "sw0") == 0
    assert retransmits(lossy) >= total(lossy, "profile_drops", "sw0") > 50
    assert grown(lossy)["sw0", "", "profile_drops[lost-middles]"] == total(lossy, "profile_drops", "sw0")
    assert clean.manifest.dut["profile"]["rules"] == []
    described = lossy.manifest.dut["profile"]
    assert (described["name"], len(described["digest"])) == ("fw-b", 64)
    assert [(rule["name"], rule["at"], rule["action"]) for rule in described["rules"]] == [
        ("lost-middles", "sw0", "drop 0.5 %")
    ]


@pytest.mark.parametrize("lab", [star(2, rate="200Mbit", mtu=1500)], indirect=True, ids=["two-hosts"])
def test_a_port_that_goes_down_ends_the_run_and_one_that_comes_back_costs_time(lab: Lab) -> None:
    rule = '  - {name: cut, port: "sw0:p1", state: down, start: 1'
    (lab.folder / "down.yaml").write_text(f"rules:\n{rule}}}\n")
    (lab.folder / "flap.yaml").write_text(f"rules:\n{rule}, end: 2.5}}\n")
    sweep = ("-n", 2, "-b", "2M", "-e", "2M", "--iterations", 20)
    failed = lab.bench("all_reduce", *sweep, "--profile", "down.yaml", out="down")
    assert failed.code == 1
    assert "transfers between ranks" in failed.stderr
    assert "sw0 (p0 to p1)" in failed.stderr or "sw0 (p1 to p0)" in failed.stderr
    assert read_run(lab.folder / "down").manifest.status == "aborted"
    for transport in ("roce", "zmq"):  # neither has given up by then
        patient = ("--qp-timeout", "nccl") if transport == "roce" else ()
        options = ("--profile", "down.yaml", "--timeout", 3, "--transport", transport, *patient)
        waiting = lab.bench("all_reduce", *sweep, *options, out=f"down-{transport}")
        assert waiting.code == 1
        assert re.search(r"rank [01] has not answered rank [01] for \d", waiting.stderr)
        assert "sw0 (p0 to p1)" in waiting.stderr or "sw0 (p1 to p0)" in waiting.stderr

    outlasting = ("--qp-timeout", 20)  # one timeout is as long as a busy host may take to bring the port up
    run = lab.run("all_reduce", *sweep, *outlasting, "--profile", "flap.yaml", out="flap")
    (cut,) = run.manifest.dut["profile"]["rules"]
    assert 1 <= cut["started_s"] < cut["ended_s"]
    assert cut["ended_s"] >= 2.5
    assert max(iteration_ns(run)) > 0.9 * (cut["ended_s"] - cut["started_s"]) * 10**9


@measures
@pytest.mark.parametrize("lab", [star(5, rate="400Mbit", mtu=9000)], indirect=True, ids=["five-hosts"])
def test_dcqcn_closes_the_loop_through_a_marker(lab: Lab) -> None:
    sweep = ("-n", 5, "-b", "400M", "-e", "400M", "--iterations", 1, "--warmup", 0, "--algorithm", "gather=parallel")
    marker = ("--profile", "ecn-marker", "--counters-every", 0.1)
    without = lab.run("gather", *sweep, *marker, "--congestion", "none", out="none")
    dcqcn = ("--congestion", "dcqcn", "--dcqcn-preset", "paper-scaled")
    controlled = lab.run("gather", *sweep, *marker, *dcqcn, out="dcqcn")
    assert total(without, "qdisc_drops", "sw0") > 100
    assert total(controlled, "ecn_marked", "sw0") > 100
    assert total(controlled, "qdisc_drops", "sw0") <= total(without, "qdisc_drops", "sw0") / 10

    senders = [(f"h{n}", "eth0") for n in range(1, 5)]
    samples = [row for row in controlled.table(RunTable.SAMPLES).to_pylist() if row["rank"] != 0]
    start, end = max(row["post_ns"] for row in samples), min(row["done_ns"] for row in samples)
    found = shares(controlled.table(RunTable.COUNTERS), senders, start_ns=start, end_ns=end, window_ns=500_000_000)
    assert found.converged is not None
    assert found.jain(found.converged) >= 0.98


@pytest.mark.parametrize("lab", [LEAF_SPINE.read_text()], indirect=True, ids=["leaf-spine"])
def test_incast_on_a_leaf_spine_shows_where_the_switches_mark_or_drop(lab: Lab) -> None:
    sweep = ("-n", 8, "-b", "16M", "-e", "16M", "--iterations", 1, "--warmup", 0)
    marker = ("--algorithm", "all_to_all=parallel", "--profile", "ecn-marker", "--congestion", "none")
    run = lab.run("all_to_all", *sweep, *marker, out="run")
    assert sum(total(run, name, "leaf") for name in ("ecn_marked", "qdisc_drops")) > 0
