"""The test description of a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulator.control.parameter import Parameter
from emulator.results.run_folder.manifest import RUNNING, Exclusion, HostFacts, TimeAxis, Trials
from emulator.views.columns.figures import NONE
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Facts, Table, Text
from emulator.views.html.sections.method import DRAFT, FEW_HOSTS, description
from tests.support.report import block_of, facts_of, identifiers, records
from tests.support.runs import collective, ranks

HOST = HostFacts(
    "a0",
    ranks=2,
    peak_rss_bytes=50 << 20,
    post_lateness_median_ns=31_000,
    steal_fraction=0.034,
    facts={"hostname": "lab1", "cpus": "8", "pid": "77"},
    nics=({"interface": "eth0", "driver": "mlx5", "firmware": "22.1", "mtu": 9000, "speed_bps": 10**11},),
)


def described(folder: Path, **fields: Any) -> PageFacts:
    return facts_of(folder, collective([0, 0], [100, 90]), {0: ranks((0, 200), (0, 210))}, **fields)


def facts_named(facts: PageFacts, identifier: str) -> dict[str, str]:
    return dict(block_of(description(facts), identifier, Facts).facts)


def test_the_section_follows_the_reporting_format(tmp_path: Path) -> None:
    section = description(described(tmp_path / "run", hosts=(HOST,)))
    assert DRAFT in section.about
    assert identifiers(section) == [
        "dut",
        "measurement",
        "yardsticks",
        "topology-drawing",
        "configuration",
        "trials",
        "hosts",
        "parameters",
        "repeatability",
        "comparability",
    ]


def test_during_the_run_repeatability_and_hosts_are_missing(tmp_path: Path) -> None:
    facts = described(tmp_path / "run")
    running = replace(facts, manifest=replace(facts.manifest, status=RUNNING))
    assert "repeatability" not in identifiers(description(running))
    text = block_of(description(running), "hosts", Text).text
    assert text == "The hosts of the agents are recorded when the run ends."


def test_the_device_under_test_is_described_as_the_topology_has_it(tmp_path: Path) -> None:
    dut = {"firmware": "4.2", "name": "sw0", "nodes": ["leaf0", "leaf1"], "ports": {"up": 2, "down": 4}, "lossy": True}
    block = block_of(description(described(tmp_path / "run", dut=dut)), "dut", Facts)
    assert list(block.facts) == [
        ("name", "sw0"),
        ("firmware", "4.2"),
        ("nodes", "leaf0, leaf1"),
        ("ports", "up: 2; down: 4"),
        ("lossy", "yes"),
    ]


def test_without_a_device_the_section_says_what_was_measured(tmp_path: Path) -> None:
    block = block_of(description(described(tmp_path / "run")), "dut", Facts)
    assert block.about.startswith("The topology names no device under test.")


def test_the_measurement_names_clock_delay_and_memory(tmp_path: Path) -> None:
    clock = TimeAxis(source="CLOCK_MONOTONIC, offsets measured", offset_ns=2_000_000, error_ns=20_000)
    found = facts_named(described(tmp_path / "run", hosts=(HOST,), clock=clock), "measurement")
    assert found["Largest clock offset corrected"] == "2 ms"
    assert found["Clock error, at most"] == "20 µs"
    assert found["Delay of posts"].startswith("31 µs")
    assert found["Memory of an agent"] == "50 MiB (largest agent)"
    assert found["Steal time"].startswith("3.4 %")


def test_the_measurement_says_how_exact_domains_are(tmp_path: Path) -> None:
    hosts = [{"name": f"h{n}", "domain": {"rate_bps": 8 * 10**9, "latency_ns": 2000} if n else None} for n in range(3)]
    found = facts_named(described(tmp_path / "run", topology={"hosts": hosts}), "measurement")
    assert found["Scale-up domains"].startswith("8 Gbit/s a rank and direction, 2 µs. Computed by agents;")
    assert "Scale-up domains" not in facts_named(described(tmp_path / "other"), "measurement")


def test_unknown_figures_of_the_tester_are_dashes(tmp_path: Path) -> None:
    found = facts_named(described(tmp_path / "run"), "measurement")
    assert found["Clock error, at most"] == "none: all agents share one clock"
    assert found["Largest clock offset corrected"] == "none"
    assert all(found[name].startswith(NONE) for name in ("Delay of posts", "Memory of an agent", "Steal time"))


def test_the_configuration_repeats_the_run(tmp_path: Path) -> None:
    fields = {
        "command_line": ("charkha", "run", "a trace", "--seed", "7"),
        "seed": 7,
        "versions": {"charkha": "1.0", "python": "3.12"},
        "topology": {"name": "lab", "source": "lab.yaml", "digest": "ab" * 32},
    }
    found = facts_named(described(tmp_path / "run", **fields), "configuration")
    assert found["Command"] == "charkha run 'a trace' --seed 7"
    assert found["Seed"] == "7"
    assert found["Versions"] == "charkha 1.0, python 3.12"
    assert found["Topology"] == "lab, from lab.yaml"
    assert found["SHA-256 of the topology"] == "ab" * 32
    assert found["Scaling"] == "none: sizes and compute times as in the trace"
    assert found["Trace"] == "two, 4 nodes, 2 of them communication"


def test_trials_and_anomalies_are_counted(tmp_path: Path) -> None:
    trials = Trials(5, 1, 3, (Exclusion(1, "a rank was late"),))
    facts = described(tmp_path / "run", trials=trials, warnings={"dangling dependency": 3})
    aborted = replace(facts, manifest=replace(facts.manifest, reason="agent a0 lost"))
    found = facts_named(aborted, "trials")
    assert (found["Iterations attempted"], found["warm-up"], found["included"], found["excluded"]) == (
        "5",
        "1",
        "3",
        "1",
    )
    assert found["iteration 1"] == "a rank was late"
    assert found["Warning"] == "dangling dependency (3 times)"
    assert found["Ended"] == "agent a0 lost"
    assert found["Incomplete"].startswith("0 measurements")


def test_a_host_has_its_interfaces_and_no_process_id(tmp_path: Path) -> None:
    table = block_of(description(described(tmp_path / "run", hosts=(HOST,))), "hosts", Table)
    assert records(table) == [
        {
            "agent": "a0",
            "ranks": "2",
            "host": "cpus 8, hostname lab1",
            "interfaces": "eth0: driver mlx5, firmware 22.1, 100 Gbit/s, MTU 9000",
            "delay of posts, median": "31 µs",
            "memory": "50 MiB",
            "steal": "3.4 %",
        }
    ]


@pytest.mark.parametrize(("count", "is_folded"), [(FEW_HOSTS, False), (FEW_HOSTS + 1, True)])
def test_many_hosts_are_folded(tmp_path: Path, count: int, *, is_folded: bool) -> None:
    hosts = tuple(HostFacts(f"a{number}", ranks=1) for number in range(count))
    assert block_of(description(described(tmp_path / "run", hosts=hosts)), "hosts", Table).is_folded is is_folded


def test_parameters_have_their_values_and_units(tmp_path: Path) -> None:
    parameters = {"message_bytes": Parameter(4096, "bytes"), "credits": Parameter(True), "note": Parameter(None)}
    table = block_of(description(described(tmp_path / "run", parameters=parameters)), "parameters", Table)
    assert [list(row) for row in table.rows] == [
        ["message_bytes", "4096", "bytes"],
        ["credits", "yes", ""],
        ["note", NONE, ""],
    ]


def test_repeatability_is_the_variation_within_the_run(tmp_path: Path) -> None:
    samples = [row for n, done in enumerate((90, 110)) for row in collective([0, 0], [done] * 2, iteration=n)]
    facts = facts_of(tmp_path / "run", samples, {0: ranks((0, 200), (0, 200)), 1: ranks((0, 200), (0, 200))})
    table = block_of(description(facts), "repeatability", Table)
    assert [list(row) for row in table.rows] == [
        ["iteration (JCT)", "JCT", "2", "2", "0"],
        ["all_reduce, 2 ranks, 1000 B, ring", "cct", "2", "2", "14.1"],
    ]


def test_other_yardsticks_are_details(tmp_path: Path) -> None:
    known = described(tmp_path / "known", roofline_ns=105, sequential_roofline_ns=210)
    table = block_of(description(known), "yardsticks", Table)
    assert [(row[0], row[2]) for row in table.rows] == [("iteration (JCT)", "2.00"), ("iteration (JCT)", "1.00")]
    assert table.is_folded
    assert "no reference for comparison" in block_of(description(described(tmp_path / "run")), "yardsticks", Text).text
