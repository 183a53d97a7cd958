"""The test description of a report as somebody has read and approved it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulator.control.observations import FlowCounters
from emulator.control.parameter import Parameter
from emulator.results.comparison.comparability import NOTED_PARAMETERS, compared_parameters
from emulator.results.run_folder.manifest import RUNNING, HostFacts, Scaling
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Table
from emulator.views.html.sections.method import FEW_HOSTS, comparability, description
from tests.support.approved import approved, sections_text
from tests.support.report import block_of, facts_of
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
VERSIONS = {"versions": {"charkha": "1.2"}}
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


def described(folder: Path, **fields: Any) -> PageFacts:
    return facts_of(folder, collective([0, 0], [100, 90]), {0: ranks((0, 200), (0, 210))}, **VERSIONS | fields)


def test_the_section_says_what_was_approved(tmp_path: Path) -> None:
    domains = [
        {"name": f"h{n}", "domain": {"rate_bps": 8 * 10**9, "latency_ns": 2000} if n else None} for n in range(3)
    ]
    repeated = [row for n, done in enumerate((90, 110)) for row in collective([0, 0], [done] * 2, iteration=n)]
    bare = described(tmp_path / "bare")
    cases = {
        "a known host, other yardsticks, parameters": described(
            tmp_path / "host", hosts=(HOST,), roofline_ns=105, sequential_roofline_ns=210, parameters=PARAMETERS
        ),
        "no device, and figures of the tester that are not known": bare,
        "hosts and repeatability are missing during the run": replace(
            bare, manifest=replace(bare.manifest, status=RUNNING)
        ),
        "scale-up domains": described(tmp_path / "domains", topology={"hosts": domains}),
        "repeatability is the variation within the run": facts_of(
            tmp_path / "repeated",
            repeated,
            {n: ranks((0, 200), (0, 200)) for n in range(2)},
            versions={"charkha": "1.2"},
        ),
    }
    approved("sections/method", sections_text({name: [description(facts)] for name, facts in cases.items()}))


@pytest.mark.parametrize(("count", "is_folded"), [(FEW_HOSTS, False), (FEW_HOSTS + 1, True)])
def test_many_hosts_are_folded(tmp_path: Path, count: int, *, is_folded: bool) -> None:
    hosts = tuple(HostFacts(f"a{number}", ranks=1) for number in range(count))
    assert block_of(description(described(tmp_path / "run", hosts=hosts)), "hosts", Table).is_folded is is_folded


def test_every_parameter_that_compare_checks_is_shown(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "run", [], {}, parameters=PARAMETERS)
    text = " ".join(cell for row in comparability(facts).rows for cell in row)
    compared = compared_parameters(facts.manifest)
    assert set(PARAMETERS) - set(compared) == {*NOTED_PARAMETERS, "timeout", "window"}
    for name in compared:
        assert name.replace("_", " ") in text
    assert "timeout" not in text


HOSTS = [{"name": f"h{number}"} for number in range(3)]
RATES = [{"name": "h0", "interfaces": [{"rate_bps": 10**11}, {"rate_bps": 10**10}]}, {"name": "h1", "rate_bps": 10**9}]
LINKS = [{"ends": ["h0:p0", "leaf:d0"], "rate_bps": 10**9}, {"ends": ["leaf:u0", "spine:d0"], "rate_bps": None}]
TOPOLOGIES: dict[str, dict[str, Any]] = {
    "two hosts": {"hosts": HOSTS, "host_index": [0, 1]},
    "one host": {"hosts": HOSTS, "host_index": [0, 0]},
    "no host": {"host_index": [0]},
    "ranks per host": {"hosts": HOSTS, "host_index": [0, 0, 1]},
    "storage": {"hosts": [HOSTS[0], {"name": "store", "storage": True}], "host_index": [0, 0, 1]},
    "hosts with ranks": {"hosts": RATES, "host_index": [0, 0]},
    "unknown rate": {"hosts": HOSTS[:1], "host_index": [0, 0], "network": {"links": LINKS}},
    "routes": {"hosts": HOSTS[:1], "host_index": [0, 0], "network": {"links": [], "ecmp_seed": 3, "routes": [{}, {}]}},
}


def test_the_comparability_set_says_what_was_approved(tmp_path: Path) -> None:
    flows = [FlowCounters(0, 1, bytes=8000), FlowCounters(0, 0, bytes=2000)]
    sizes = [row for n in range(8) for row in collective([0] * 4, [1000] * 4, instance=n, size_bytes=1000 + n)]
    cases = {
        name: described(tmp_path / name, flows=flows, topology=topology, parameters=PARAMETERS)
        for name, topology in TOPOLOGIES.items()
    }
    cases |= {
        "neither parameters nor topology": described(tmp_path / "bare"),
        "scaled": described(tmp_path / "half", scaling=Scaling(bytes=0.5)),
        "many sizes": facts_of(tmp_path / "sizes", sizes, {0: ranks(*[(0, 10)] * 4)}, **VERSIONS),
    }
    lines = [
        line
        for name, facts in cases.items()
        for line in (f"== {name}", *(" | ".join(row) for row in comparability(facts).rows), "")
    ]
    approved("sections/comparability", "\n".join(lines))
