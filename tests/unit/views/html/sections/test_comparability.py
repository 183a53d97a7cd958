"""The comparability set of a report is what `charkha compare` checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emulator.control.observations import FlowCounters
from emulator.control.parameter import Parameter
from emulator.results.comparison.comparability import NOTED_PARAMETERS, compared_parameters
from emulator.results.run_folder.manifest import Scaling
from emulator.views.columns.figures import NONE
from emulator.views.html.facts import PageFacts
from emulator.views.html.sections.comparability import comparability
from tests.support.report import facts_of
from tests.support.runs import collective, ranks

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


@pytest.mark.parametrize(
    ("host_index", "text"),
    [([0, 1], "7.81 KiB in the whole run, 80 % of all payload"), ([0, 0], "0 B in the whole run, 0 % of all payload")],
)
def test_payload_between_hosts_is_told_apart(tmp_path: Path, host_index: list[int], text: str) -> None:
    flows = [FlowCounters(0, 1, bytes=8000), FlowCounters(0, 0, bytes=2000)]
    topology = {"name": "t", "hosts": [{"name": "h0"}, {"name": "h1"}], "host_index": host_index}
    shown = found(tmp_path / "run", flows=flows, topology=topology)
    assert shown["Payload that left its host (S_fabric)"] == text


def test_payload_of_ranks_without_a_host_is_unknown(tmp_path: Path) -> None:
    shown = found(tmp_path / "run", flows=[FlowCounters(0, 1, bytes=1)], topology={"host_index": [0]})
    assert shown["Payload that left its host (S_fabric)"] == NONE


def test_placement_counts_ranks_per_host(tmp_path: Path) -> None:
    topology = {"hosts": [{"name": "h0"}, {"name": "h1"}, {"name": "h2"}], "host_index": [0, 0, 1]}
    assert found(tmp_path / "run", topology=topology)["Ranks per host, placement"] == "1 host with 1, 1 host with 2"


def test_a_storage_host_has_no_ranks(tmp_path: Path) -> None:
    hosts = [{"name": "h0"}, {"name": "store", "storage": True}]
    shown = found(tmp_path / "run", topology={"hosts": hosts, "host_index": [0, 0, 1]})
    assert shown["Ranks per host, placement"] == "1 host with 2"


def test_rates_are_those_of_hosts_with_ranks(tmp_path: Path) -> None:
    hosts = [
        {"name": "h0", "interfaces": [{"rate_bps": 10**11}, {"rate_bps": 10**10}]},
        {"name": "h1", "rate_bps": 10**9},
    ]
    shown = found(tmp_path / "run", topology={"hosts": hosts, "host_index": [0, 0]})
    assert shown["Line rate of a rank's port"] == "10 Gbit/s, 100 Gbit/s"


def test_routes_of_the_network_belong_to_load_balancing(tmp_path: Path) -> None:
    network = {"links": [], "ecmp_seed": 3, "routes": [{}, {}]}
    topology = {"hosts": [{"name": "h0"}], "host_index": [0, 0], "network": network}
    shown = found(tmp_path / "run", parameters=PARAMETERS, topology=topology)
    assert shown["Load balancing"].endswith("; ECMP seed 3, 2 explicit routes")


def test_an_unknown_rate_leaves_oversubscription_open(tmp_path: Path) -> None:
    links = [{"ends": ["h0:p0", "leaf:d0"], "rate_bps": 10**9}, {"ends": ["leaf:u0", "spine:d0"], "rate_bps": None}]
    topology = {"hosts": [{"name": "h0"}], "host_index": [0, 0], "network": {"links": links}}
    assert found(tmp_path / "run", topology=topology)["Leaf oversubscription"] == NONE


def test_scaling_is_part_of_the_set(tmp_path: Path) -> None:
    assert found(tmp_path / "run")["Scaling"] == "none"
    assert found(tmp_path / "half", scaling=Scaling(bytes=0.5))["Scaling"] == "sizes × 0.5"  # noqa: RUF001
