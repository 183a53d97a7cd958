"""The test description of a report."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulator.control.observations import FlowCounters
from emulator.control.parameter import Parameter
from emulator.results.comparison.comparability import NOTED_PARAMETERS, compared_parameters
from emulator.results.run_folder.manifest import RUNNING, HostFacts, Scaling
from emulator.views.columns.figures import NONE
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Facts, Table, Text
from emulator.views.html.sections.method import DRAFT, FEW_HOSTS, comparability, description
from tests.support.report import block_of, facts_of, identifiers
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
        "uncertainty",
        "comparability",
    ]


def test_during_the_run_repeatability_and_hosts_are_missing(tmp_path: Path) -> None:
    facts = described(tmp_path / "run")
    running = replace(facts, manifest=replace(facts.manifest, status=RUNNING))
    assert "repeatability" not in identifiers(description(running))
    text = block_of(description(running), "hosts", Text).text
    assert text == "The hosts of the agents are recorded when the run ends."


def test_without_a_device_the_section_says_what_was_measured(tmp_path: Path) -> None:
    block = block_of(description(described(tmp_path / "run")), "dut", Facts)
    assert block.about.startswith("The topology names no device under test.")


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


@pytest.mark.parametrize(("count", "is_folded"), [(FEW_HOSTS, False), (FEW_HOSTS + 1, True)])
def test_many_hosts_are_folded(tmp_path: Path, count: int, *, is_folded: bool) -> None:
    hosts = tuple(HostFacts(f"a{number}", ranks=1) for number in range(count))
    assert block_of(description(described(tmp_path / "run", hosts=hosts)), "hosts", Table).is_folded is is_folded


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


PARAMETERS = {
    "transport": Parameter("roce"),
    "message_bytes": Parameter(4 << 20, "bytes"),
    "credits": Parameter(True),
    "iterations": Parameter(5),
    "warmup": Parameter(1),
    "timeout": Parameter(60.0, "s"),
    "window": Parameter(4096, "nodes"),
    "roce.qps": Parameter(2),
    "roce.source_port": Parameter("fold"),
    "roce.path_mtu": Parameter(4096, "bytes"),
    "algorithm.all_reduce": Parameter("ring"),
}


def lines(facts: PageFacts) -> dict[str, str]:
    return dict(list(row) for row in comparability(facts).rows)


def found(folder: Path, **fields: Any) -> dict[str, str]:
    flows = fields.pop("flows", ())
    spent = {0: ranks((0, 10), (0, 10))}
    return lines(facts_of(folder, collective([0, 0], [10, 10]), spent, flows=flows, **fields))


def test_every_parameter_that_compare_checks_is_shown(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "run", [], {}, parameters=PARAMETERS)
    text = " ".join(lines(facts).values())
    compared = compared_parameters(facts.manifest)
    assert set(PARAMETERS) - set(compared) == {*NOTED_PARAMETERS, "timeout", "window"}
    for name in compared:
        assert name.replace("_", " ") in text
    assert "timeout" not in text


def test_parameters_are_grouped_by_what_they_decide(tmp_path: Path) -> None:
    shown = found(tmp_path / "run", parameters=PARAMETERS, versions={"charkha": "1.2"})
    assert shown["Transport"] == "transport roce, message bytes 4 MiB, credits on"
    assert shown["Load balancing"] == "roce.qps 2, roce.source port fold"
    assert shown["Other parameters"] == "roce.path mtu 4 KiB, algorithm.all reduce ring"
    assert shown["Charkha's version"] == "1.2"


def test_without_parameters_and_topology_there_are_dashes(tmp_path: Path) -> None:
    shown = found(tmp_path / "run")
    names = ("Ranks per host, placement", "Line rate of a rank's port", "Leaf oversubscription", "Load balancing")
    assert {shown[name] for name in (*names, "Other parameters")} == {NONE}


def test_the_workload_has_sizes_and_factors(tmp_path: Path) -> None:
    samples = []
    for number in range(8):
        samples += collective([0] * 4, [1000] * 4, instance=number, size_bytes=1000 + number)
    facts = facts_of(tmp_path / "run", samples, {0: ranks(*[(0, 10)] * 4)})
    text = lines(facts)["Collectives, sizes, factors"]
    assert text.startswith("all_reduce 1000 B × 4 ranks, factor 1.5; ")  # noqa: RUF001
    assert text.endswith("; 2 more classes: see the table of classes")


LEFT, PLACEMENT = "Payload that left its host (S_fabric)", "Ranks per host, placement"
FLOWS = [FlowCounters(0, 1, bytes=8000), FlowCounters(0, 0, bytes=2000)]
HOSTS = [{"name": f"h{number}"} for number in range(3)]
RATES = [{"name": "h0", "interfaces": [{"rate_bps": 10**11}, {"rate_bps": 10**10}]}, {"name": "h1", "rate_bps": 10**9}]
LINKS = [{"ends": ["h0:p0", "leaf:d0"], "rate_bps": 10**9}, {"ends": ["leaf:u0", "spine:d0"], "rate_bps": None}]


@pytest.mark.parametrize(
    ("topology", "name", "text"),
    [
        ({"hosts": HOSTS, "host_index": [0, 1]}, LEFT, "7.81 KiB in the whole run, 80 % of all payload"),
        ({"hosts": HOSTS, "host_index": [0, 0]}, LEFT, "0 B in the whole run, 0 % of all payload"),
        ({"host_index": [0]}, LEFT, NONE),
        ({"hosts": HOSTS, "host_index": [0, 0, 1]}, PLACEMENT, "1 host with 1, 1 host with 2"),
        (
            {"hosts": [HOSTS[0], {"name": "store", "storage": True}], "host_index": [0, 0, 1]},
            PLACEMENT,
            "1 host with 2",
        ),
        ({"hosts": RATES, "host_index": [0, 0]}, "Line rate of a rank's port", "10 Gbit/s, 100 Gbit/s"),
        ({"hosts": HOSTS[:1], "host_index": [0, 0], "network": {"links": LINKS}}, "Leaf oversubscription", NONE),
    ],
    ids=["two hosts", "one host", "no host", "ranks per host", "storage", "hosts with ranks", "unknown rate"],
)
def test_facts_of_the_topology_count_hosts_with_ranks(
    tmp_path: Path, topology: dict[str, Any], name: str, text: str
) -> None:
    assert found(tmp_path / "run", flows=FLOWS, topology=topology)[name] == text


def test_routes_of_the_network_belong_to_load_balancing(tmp_path: Path) -> None:
    network = {"links": [], "ecmp_seed": 3, "routes": [{}, {}]}
    topology = {"hosts": [{"name": "h0"}], "host_index": [0, 0], "network": network}
    shown = found(tmp_path / "run", parameters=PARAMETERS, topology=topology)
    assert shown["Load balancing"].endswith("; ECMP seed 3, 2 explicit routes")


def test_scaling_is_part_of_the_set(tmp_path: Path) -> None:
    assert found(tmp_path / "run")["Scaling"] == "none"
    assert found(tmp_path / "half", scaling=Scaling(bytes=0.5))["Scaling"] == "sizes × 0.5"  # noqa: RUF001
