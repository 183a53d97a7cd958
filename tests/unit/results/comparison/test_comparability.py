from dataclasses import replace
from typing import Any

import pytest

from emulator.control.parameter import Parameter
from emulator.results.comparison.comparability import Comparability, check_comparability
from emulator.results.comparison.groups import MeasuredRun
from emulator.results.run_folder.manifest import HostFacts, Manifest, Scaling, TraceFacts
from emulator.results.statistics.samples.classes import ClassKey
from tests.support.recorded import group, recorded

TRACE = TraceFacts(path="two", digest="00" * 32, ranks=2, nodes=4, communication_nodes=2)
HOSTS = [
    {
        "name": f"h{n}",
        "rate_bps": 10**9,
        "interfaces": [{"name": "eth0", "rate_bps": 10**9, "addresses": [f"10.0.0.{n}"]}],
    }
    for n in range(2)
]
TOPOLOGY = {"name": "pair", "source": "pair.yaml", "hosts": HOSTS, "host_index": [0, 1], "addresses": ["a", "b"]}
PARAMETERS = {"transport": Parameter("roce"), "roce.qps": Parameter(1), "credits": Parameter(True)}


def checked(**change: Any) -> Comparability:
    """Two groups of two runs; `change` is of the second's manifests."""
    base = {"trace": TRACE, "topology": TOPOLOGY, "parameters": PARAMETERS, "versions": {"charkha": "1.0"}}
    runs = recorded("paced")
    first = [changed(run, base) for run in runs[0:4:2]]
    second = [changed(run, base | change) for run in runs[1:4:2]]
    return check_comparability([group("a", first), group("b", second)])


def changed(run: MeasuredRun, facts: dict[str, Any]) -> MeasuredRun:
    manifest: Manifest = replace(run.manifest, **facts)
    return replace(run, manifest=manifest)


def parameters(**fields: Parameter) -> dict[str, Any]:
    return {"parameters": PARAMETERS | {name.replace("__", "."): value for name, value in fields.items()}}


def network(**fields: Any) -> dict[str, Any]:
    return {"topology": TOPOLOGY | fields}


def test_equal_runs_are_comparable() -> None:
    found = checked()
    assert found.refused == []
    assert found.notes == ["no run has a firmware: only their folders distinguish the groups"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"trace": replace(TRACE, ranks=4)}, "ranks: 2 in a; 4 in b"),
        ({"spec": {"events": [{"at": "1s", "port": "sw0:p1", "down": True}]}}, "events: "),
        ({"trace": replace(TRACE, digest="ab" * 32)}, "trace (digest): 000000000000 in a; abababababab in b"),
        (network(host_index=[0, 0]), "placement of ranks"),
        (network(interface_index=[0, 1]), "placement of ranks"),
        (network(hosts=[HOSTS[0], HOSTS[1] | {"rate_bps": 10**10}]), "topology and rates"),
        (network(network={"links": [{"rate_bps": 10**8}]}), "topology and rates"),
        ({"scaling": Scaling(bytes=0.5)}, "scaling of sizes: 1.0 in a; 0.5 in b"),
        ({"scaling": Scaling(element_bytes=4)}, "bytes per element: none in a; 4 in b"),
        ({"scaling": Scaling(compute="skip")}, "compute: replay in a; skip in b"),
        ({"cct_until": "last_done"}, "end of a collective: last arrival in a; last done in b"),
        ({"observation_point": "NIC"}, "observation point: endpoint software boundary in a; NIC in b"),
        ({"versions": {"charkha": "1.1"}}, "Charkha's version: 1.0 in a; 1.1 in b"),
        (
            {"hosts": (HostFacts("a0", facts={"build": "compiled"}),)},
            'Charkha\'s build: ["pure"] in a; ["compiled"] in b',
        ),
        (parameters(transport=Parameter("zmq")), "transport: roce in a; zmq in b"),
        (parameters(roce__qps=Parameter(4)), "roce.qps: 1 in a; 4 in b"),
        (parameters(credits=Parameter(False)), "credits: True in a; False in b"),
        (parameters(algorithm__all_reduce=Parameter("ring")), "algorithm.all_reduce: none in a; ring in b"),
        (parameters(not_yet_known=Parameter(7, "ms")), "not_yet_known: none in a; 7 ms in b"),
    ],
)
def test_what_changes_the_work_or_the_tester_is_refused_by_name(change: dict[str, Any], what: str) -> None:
    (found,) = checked(**change).refused
    assert what in str(found)


def test_another_transport_explains_its_parameters() -> None:
    found = checked(parameters={"transport": Parameter("zmq"), "credits": Parameter(True)})
    assert [one.what for one in found.refused] == ["transport"]


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (parameters(iterations=Parameter(50)), "iterations: none in a; 50 in b"),
        (parameters(warmup=Parameter(2)), "warmup: none in a; 2 in b"),
        ({"hosts": (HostFacts("a0", facts={"hostname": "x", "kernel": "6.1"}),)}, "tester hosts"),
        ({"versions": {"charkha": "1.0", "python": "3.13"}}, "Python: none in a; 3.13 in b"),
    ],
)
def test_what_deserves_a_word_is_noted(change: dict[str, Any], note: str) -> None:
    found = checked(**change)
    assert found.refused == []
    assert any(note in one for one in found.notes)


@pytest.mark.parametrize(
    "change",
    [
        {"dut": {"firmware": "2.0"}},
        {"seed": 9},
        network(addresses=["c", "d"], source="elsewhere.yaml", digest="12"),
        parameters(timeout=Parameter(90.0, "s"), window=Parameter(8192, "nodes")),
    ],
)
def test_the_device_seeds_addresses_and_timeouts_may_differ(change: dict[str, Any]) -> None:
    assert checked(**change).refused == []


def test_every_run_is_looked_at_not_only_the_first() -> None:
    runs = recorded("paced")
    odd = replace(runs[5], manifest=replace(runs[5].manifest, scaling=Scaling(bytes=0.5)))
    found = check_comparability([group("a", runs[0:3]), group("b", [*runs[3:5], odd])])
    assert [str(one) for one in found.refused] == ["scaling of sizes: 1.0 in a, b; 0.5 in b"]


@pytest.mark.parametrize(
    "versions",
    [
        ({"firmware": "1.0"}, {"firmware": "1.1"}),
        ({"profile": {"name": "fw", "digest": "1.0"}}, {"profile": {"name": "fw", "digest": "1.1"}}),
    ],
)
def test_a_group_of_two_firmwares_is_refused(versions: tuple[dict[str, Any], ...]) -> None:
    runs = recorded("paced")
    mixed = [replace(run, manifest=replace(run.manifest, dut=dut)) for run, dut in zip(runs[:2], versions, strict=True)]
    (found,) = check_comparability([group("a", mixed), group("b", runs[2:4])]).refused
    assert "device under test within group a" in str(found)
    assert "1.1" in str(found)
    assert "paced-1" in str(found)


def test_classes_where_the_tester_is_the_limit_are_noted() -> None:
    """Refusing them would hide what became slower than the tester."""
    runs = recorded("paced")
    key = ClassKey("all_reduce", 2, 4096, "direct")
    limited = [replace(run, tester_percent={key: 90.0}) for run in runs[0:4:2]]
    found = check_comparability([group("a", limited), group("b", runs[1:4:2])])
    assert found.refused == []
    assert found.notes[0].endswith("in all_reduce, 2 ranks, 4 KiB, direct")


def test_long_values_are_cut_around_the_place_where_they_differ() -> None:
    first, second = "x" * 100 + "a" + "y" * 100, "x" * 100 + "b" + "y" * 100
    runs = [
        changed(run, {"trace": TRACE, "topology": TOPOLOGY, "parameters": PARAMETERS, "versions": {"charkha": version}})
        for run, version in zip(recorded("paced")[:2], (first, second), strict=True)
    ]
    (cut,) = check_comparability([group("a", runs[:1]), group("b", runs[1:])]).refused
    assert "…" + "x" * 20 + "a" + "y" * 39 + "… in a" in str(cut)


def at(run: MeasuredRun, hour: int) -> MeasuredRun:
    return changed(run, {"created": f"2026-01-02T{hour:02}:00:00+00:00"})


@pytest.mark.parametrize(("hours", "is_noted"), [((0, 1, 2), True), ((0, 1, 9), False), ((8, 9, 10), True)])
def test_groups_that_do_not_overlap_in_time_are_noted(hours: tuple[int, ...], is_noted: bool) -> None:
    known = recorded("paced")
    first = [at(run, hour) for run, hour in zip(known[:3], hours, strict=True)]
    second = [at(run, hour) for run, hour in zip(known[3:6], (5, 6, 7), strict=True)]
    notes = check_comparability([group("a", first), group("b", second)]).notes
    assert any("one after the other" in note for note in notes) is is_noted


@pytest.mark.parametrize(("count", "words"), [(1, "in 1 class payload"), (2, "in 2 classes payload")])
def test_payload_that_arrived_early_is_noted(count: int, words: str) -> None:
    one, two = recorded("paced")[:2]
    keys = sorted(one.measurements.classes)[:count]
    classes = {key: replace(times, early=int(key in keys)) for key, times in one.measurements.classes.items()}
    early = replace(one, measurements=replace(one.measurements, classes=classes))
    notes = check_comparability([group("a", [early]), group("b", [two])]).notes
    assert any(note.startswith(words) for note in notes)
