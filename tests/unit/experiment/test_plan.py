import json
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import EventError, InputError, PlanError
from emulator.experiment.settle.plan import CollectiveLoad, check_flows, plan_experiment
from emulator.experiment.spec.event_spec import Event
from emulator.experiment.spec.spec import Experiment, Job, Network, Trace, Transport
from emulator.schema import decode
from emulator.trace.meaning.model import CommKind

ROOT = Path(__file__).parents[3]
RAILS = ROOT / "topologies" / "rail-4x4.yaml"
DOMAIN = "{rate: 450GB/s, latency: 2us}"
LEAF_SPINE = str(ROOT / "topologies" / "leaf-spine-2x2.yaml")
ALL_TO_ALL = CollectiveLoad(CommKind.ALL_TO_ALL, ranks=8, size_bytes=1 << 20, group_size=8)


def experiment(path: str = "", **network: object) -> Experiment:
    network = {"topology": LEAF_SPINE} | network
    return Experiment.of_trace(path, network=Network(**network))  # type: ignore[arg-type]


def test_a_collective_is_planned_without_a_trace() -> None:
    made = plan_experiment(experiment(), ALL_TO_ALL)
    assert made.plan.topology.ranks == 8
    assert made.plan.network_bytes > 0
    assert (made.jct_ns, made.jct_note) == (None, "")


def test_a_trace_has_a_shortest_iteration() -> None:
    made = plan_experiment(experiment(str(ROOT / "lab" / "examples" / "transformer-8r")))
    assert made.jct_ns > 0
    assert made.jct_note == "longest path of compute and ideal times by links"


def test_rails_of_hosts_with_domains_are_all_used_by_default(tmp_path: Path) -> None:
    with_domains = RAILS.read_text()
    for host in range(4):
        with_domains = with_domains.replace(f"- name: h{host}\n", f"- name: h{host}\n    domain: {DOMAIN}\n")
    (tmp_path / "domains.yaml").write_text(with_domains)
    chosen = {}
    for file in (str(RAILS), str(tmp_path / "domains.yaml")):
        for kind in (CommKind.ALL_REDUCE, CommKind.ALL_TO_ALL):
            load = CollectiveLoad(kind, ranks=16, size_bytes=16 << 20, group_size=16)
            (one,) = plan_experiment(experiment(topology=file), load).plan.operations
            chosen[Path(file).stem, kind.label] = one.operation.algorithm
    assert chosen == {
        ("rail-4x4", "all_reduce"): "ring",
        ("rail-4x4", "all_to_all"): "pairwise",
        ("domains", "all_reduce"): "ring:channels=4",
        ("domains", "all_to_all"): "pxn",
    }


def test_groups_that_are_laid_out_differently_are_planned_apart() -> None:
    load = CollectiveLoad(CommKind.ALL_REDUCE, ranks=12, size_bytes=1 << 20, group_size=6)
    network = Network(topology=str(RAILS))
    asked = Experiment.of_trace("", network=network, algorithms={"all_reduce": "hierarchical"})
    found = plan_experiment(asked, load).plan.operations
    assert [(one.operation.ranks.tolist()[0][0], one.operation.groups) for one in found] == [(0, 1), (6, 1)]
    assert found[0].network_bytes == found[1].network_bytes > 0


def test_a_plan_says_how_long_the_bins_of_a_timeline_become() -> None:
    transport = Transport(options={"timeline": "1ms"})
    loopback = Experiment.of_trace("", network=Network(transport=transport))
    load = CollectiveLoad(CommKind.ALL_REDUCE, ranks=1024, size_bytes=1 << 20, group_size=1024)
    said: list[str] = []
    plan_experiment(loopback, load, notify=said.append)
    plan_experiment(experiment(transport=transport), ALL_TO_ALL, notify=said.append)
    [large, small] = [line for line in said if "timeline" in line]
    assert "in bins of 1ms" in large
    assert (
        "none of 1,024 flows pauses, up to 256 ms after a minute and 16.4 s after an hour; about 3 MB an hour" in large
    )
    assert "none of 56 flows pauses, up to 16 ms after a minute" in small


def test_a_barrier_has_no_size() -> None:
    load = CollectiveLoad(CommKind.BARRIER, ranks=4, size_bytes=1 << 20, group_size=4)
    (operation,) = plan_experiment(experiment(), load).plan.operations
    assert operation.operation.size_bytes == 0


def test_the_plan_hashes_as_the_kernel_does_where_source_ports_are_known() -> None:
    known = plan_experiment(experiment(), ALL_TO_ALL).plan.hash_name
    zmq = plan_experiment(experiment(transport=Transport(name="zmq")), ALL_TO_ALL).plan.hash_name
    drawn = Transport(options={"source_port": "random"})
    assert known != zmq
    assert plan_experiment(experiment(transport=drawn), ALL_TO_ALL).plan.hash_name == zmq


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "the link loads cannot be read"),
        ("[1]", 'write link loads as {"leaf0:u0 > spine0:d0": 1000}'),
        ('{"leaf0:u0 > spine0:d0": "much"}', "write link loads as"),
        (None, "the link loads cannot be read"),
    ],
)
def test_a_file_of_link_loads_that_does_not_fit_is_named(tmp_path: Path, content: str | None, problem: str) -> None:
    path = tmp_path / "loads.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError) as caught:
        plan_experiment(experiment(), ALL_TO_ALL, link_loads=path)
    assert str(path) in str(caught.value)
    assert problem in str(caught.value)


def test_observed_link_loads_change_the_even_split(tmp_path: Path) -> None:
    plain = plan_experiment(experiment(), ALL_TO_ALL).plan
    names = [plain.paths.link_name(link) for link in range(len(plain.loads.even)) if plain.loads.even[link] > 0]
    uplinks = [name for name in names if "leaf0" in name.split(" > ")[0] and "spine" in name]
    assert len(uplinks) >= 2
    (tmp_path / "loads.json").write_text(json.dumps({uplinks[0]: 3000, uplinks[1]: 1000}))
    shared = plan_experiment(experiment(), ALL_TO_ALL, link_loads=tmp_path / "loads.json").plan
    even = {shared.paths.link_name(link): shared.loads.even[link] for link in range(len(shared.loads.even))}
    assert even[uplinks[0]] == pytest.approx(3 * even[uplinks[1]])


def test_a_plan_refuses_what_a_run_refuses() -> None:
    with pytest.raises(PlanError, match="transport zmq has no option 'colour'"):
        plan_experiment(experiment(transport=Transport(name="zmq", options={"colour": "red"})), ALL_TO_ALL)


def test_the_trace_of_the_experiment_is_not_opened_for_another_load() -> None:
    assert experiment().job.trace == Trace(path="")
    assert plan_experiment(experiment(), ALL_TO_ALL).plan.operations


@pytest.mark.parametrize(("values", "shares"), [(0, [0, 0, 16, 0]), (4, [4, 4, 4, 4]), (16, [2, 5, 2, 7])])
def test_a_sprayed_flow_is_hashed_value_by_value(values: int, shares: list[int]) -> None:
    transport = Transport(name="roce", options={"multipath": values})
    one = experiment(topology=str(ROOT / "topologies" / "leaf-spine-2x4.yaml"), transport=transport)
    load = CollectiveLoad(CommKind.BROADCAST, ranks=2, size_bytes=16, group_size=2)
    plan = plan_experiment(one, load).plan
    links = {plan.paths.link_name(link): load for link, load in enumerate(plan.loads.hashed.tolist())}
    assert [links[f"leaf0:u{spine} > spine{spine}:d0"] for spine in range(4)] == shares
    assert plan.entropy_values == values
    (operation,) = plan.operations
    assert operation.ideal_ns is not None
    assert (operation.hashed_ns == operation.ideal_ns) is (values == 4)


HOSTS = """
hosts:
  - {name: h0, interfaces: [{name: a, per_rank: 198.18.0.0/24}, {name: b, per_rank: 198.18.1.0/24}]}
  - {name: nic, address: 198.18.9.1, peer: {}}
"""
HERE, THERE = "h0:b", "nic:eth0"


@pytest.fixture
def topology(tmp_path: Path) -> str:
    (tmp_path / "t.yaml").write_text(HOSTS)
    return str(tmp_path / "t.yaml")


def sent(topology: str, flow: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    document = {
        "charkha": 1,
        "jobs": [{"trace": {"path": "unread"}}],
        "network": {"topology": topology},
        "flows": [{"kind": "perftest", "host": HERE, "peer": "nic", **flow}],
    }
    loads = check_flows(decode(document, Experiment), ranks=2)
    return [(str(load.sender), str(load.receiver), load.payload_bytes) for load in loads]


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        ({"iterations": 5, "size_bytes": 1000, "qps": 3}, [(HERE, THERE, 15_000)]),
        ({}, [(HERE, THERE, None)]),
        ({"verb": "send", "duration_s": 2}, [(HERE, THERE, None)]),
        ({"verb": "read"}, [(THERE, HERE, None)]),
        ({"role": "server", "iterations": 2, "size_bytes": 10}, [(THERE, HERE, 20)]),
        ({"role": "server", "verb": "read", "iterations": 2, "size_bytes": 10}, [(HERE, THERE, 20)]),
        ({"bidirectional": True, "iterations": 1, "size_bytes": 7}, [(HERE, THERE, 7), (THERE, HERE, 7)]),
        ({"verb": "write-lat", "iterations": 4}, [(HERE, THERE, 8), (THERE, HERE, 8)]),
        ({"verb": "read-lat", "iterations": 4}, [(THERE, HERE, 8)]),
    ],
)
def test_payload_goes_from_the_end_that_has_it(topology: str, flow: dict[str, Any], expected: list[Any]) -> None:
    assert sent(topology, flow) == expected


def test_what_a_run_would_refuse_is_refused(topology: str) -> None:
    with pytest.raises(PlanError, match=r"flows\[0\]: there is no peer 'h9'"):
        sent(topology, {"peer": "h9"})


def test_the_plan_shows_the_schedule_and_refuses_what_no_lab_could_carry_out() -> None:
    network = Network(topology=str(ROOT / "topologies" / "two-hosts-switch.yaml"))
    load = CollectiveLoad(CommKind.ALL_REDUCE, 2, 1024, 2)

    def planned(network: Network = network, **event: object) -> list[tuple[str, ...]]:
        events = (decode({"at": "1s"} | event, Event),)
        spec = Experiment(jobs=(Job(trace=Trace(path="")),), network=network, events=events)
        return [tuple(one) for one in plan_experiment(spec, load).changes]

    assert planned(port="sw0:p1", down="300ms") == [("events[0]", "1 s", "1.3 s", "sw0:p1", "port down")]
    assert planned(profile="fw-b") == [("lost-middles", "1 s", "the end", "every switch under test", "drop 0.5 %")]
    with pytest.raises(EventError, match="switch sw0 has no port 'p7'"):
        planned(port="sw0:p7", down="300ms")
    with pytest.raises(PlanError, match="events need a lab"):
        planned(Network(), port="sw0:p1", down="300ms")
