"""The folder for ASTRA-sim: network in its units, facts, notes."""

import json
from pathlib import Path

import pytest
import yaml

from emulator._pb import et_pb2
from emulator.annexes.exports.astra_sim_observe import LinkClass
from emulator.annexes.exports.astra_sim_package import overlapping, readme, write
from emulator.annexes.exports.astra_sim_simulator import GB, Dimension, Judged
from emulator.errors import ResultError
from emulator.results.run_folder.manifest import Scaling
from emulator.results.run_folder.reader import Run
from emulator.trace.files.attributes import attribute_value
from tests.support.et_files import read_et
from tests.support.runs import Row, collective, pair, write_run
from tests.support.trace_files import attribute
from tests.support.trace_files import write as write_et
from tests.unit.annexes.exports.test_astra_sim_simulator import SIZES, judged, ring, to_all


def played(folder: Path, nodes: list[et_pb2.Node], samples: list[dict[str, object]], **facts: object) -> Run:
    """A run of two ranks whose measured trace has these nodes on both."""
    run = write_run(folder / "run", samples, **facts)
    (run.folder / "trace").mkdir()
    for rank in range(2):
        write_et(run.folder / "trace" / f"t.{rank}.et", nodes)
    return run


def exported(run: Run, target: Path, rank: int = 0) -> dict[int, et_pb2.Node]:
    write(run, target)
    return {node.id: node for node in read_et(target / f"trace.{rank}.et")[1]}


def facts_of(node: et_pb2.Node) -> dict[str, object]:
    return {one.name: attribute_value(one) for one in node.attr}


def comm(node_id: int, **fields: object) -> et_pb2.Node:
    return et_pb2.Node(id=node_id, type=et_pb2.COMM_COLL_NODE, duration_micros=7, **fields)


def test_a_collective_it_knows_keeps_its_type_and_gets_the_size_that_was_played(tmp_path: Path) -> None:
    samples = collective([0, 0], [9000, 9000], kind="reduce_scatter_block", node_id=1, size_bytes=512)
    run = played(tmp_path, [comm(1, attr=[attribute("comm_size", uint64_val=1024)])], samples)
    node = exported(run, tmp_path / "out")[1]
    assert facts_of(node) == {"is_cpu_op": False, "comm_size": 512, "comm_type": 7}
    assert {one.name: one.WhichOneof("value") for one in node.attr} == {
        "is_cpu_op": "bool_val",
        "comm_size": "int64_val",
        "comm_type": "int64_val",
    }
    assert node.duration_micros == 7


@pytest.mark.parametrize(("kind", "true_type"), [("reduce", 1), ("gather", 3), ("scatter", 4), ("barrier", 9)])
def test_a_collective_it_does_not_know_is_replayed_as_a_broadcast(tmp_path: Path, kind: str, true_type: int) -> None:
    run = played(tmp_path, [comm(1)], collective([0, 0], [9000, 9000], kind=kind, node_id=1))
    facts = facts_of(exported(run, tmp_path / "out")[1])
    assert (facts["comm_type"], facts["charkha.comm_type"]) == (5, true_type)
    changed = json.loads((tmp_path / "out" / "fit.json").read_text())["changed_for_astra_sim"]
    assert changed == {f"{kind}: a broadcast, whose measured duration is replayed": 2}


@pytest.mark.parametrize(("size", "comm_type"), [(2, 0), (1, 5), (0, 5)])
def test_a_collective_of_fewer_bytes_than_ranks_is_replayed_as_a_broadcast(
    tmp_path: Path, size: int, comm_type: int
) -> None:
    run = played(tmp_path, [comm(1)], collective([0, 0], [9000, 9000], size_bytes=size, node_id=1))
    assert facts_of(exported(run, tmp_path / "out")[1])["comm_type"] == comm_type


def test_what_it_stops_at_is_gone(tmp_path: Path) -> None:
    nodes = [
        et_pb2.Node(id=1, type=et_pb2.METADATA_NODE, duration_micros=3),
        et_pb2.Node(id=2, type=et_pb2.MEM_LOAD_NODE, duration_micros=40, ctrl_deps=[1, 99]),
        comm(3, data_deps=[2], attr=[attribute("is_cpu_op", bool_val=True)]),
        comm(4, data_deps=[3]),
    ]
    run = played(tmp_path, nodes, collective([0, 0], [9, 9], node_id=4), scaling=Scaling(compute="0.5"))
    got = exported(run, tmp_path / "out")
    assert [got[n].type for n in (1, 2, 3, 4)] == [et_pb2.COMP_NODE] * 3 + [et_pb2.COMM_COLL_NODE]
    assert [got[n].duration_micros for n in (1, 2, 4)] == [0, 20, 7]
    assert [facts_of(got[n])["is_cpu_op"] for n in (1, 2, 3, 4)] == [False] * 4
    assert list(got[2].ctrl_deps) == [1]
    changed = json.loads((tmp_path / "out" / "fit.json").read_text())["changed_for_astra_sim"]
    assert changed["compute on the CPU: compute of the device, which runs one node at a time"] == 2


def test_traffic_with_a_storage_host_keeps_its_measured_duration(tmp_path: Path) -> None:
    """Recorded were 100 µs for the checkpoint and 30 for the file in it; the file took 9, and compute half."""
    cpu = [attribute("is_cpu_op", bool_val=True)]
    nodes = [
        et_pb2.Node(id=1, type=et_pb2.CHECKPOINT_NODE, duration_micros=100, attr=cpu),
        et_pb2.Node(id=2, type=et_pb2.STORAGE_NODE, duration_micros=9, start_time_micros=4, ctrl_deps=[1], attr=cpu),
        et_pb2.Node(id=3, type=et_pb2.STORAGE_NODE, duration_micros=6, data_deps=[2], attr=cpu),
        comm(4, data_deps=[3]),
    ]
    storage = {"kind": "storage_write", "size_bytes": 700, "node_id": 2, "peer": 2, "traced_ns": 30 * MICROS}
    stored = [one for rank in range(2) for one in collective([0], [9 * MICROS], instance=rank, **storage)]
    for rank, one in enumerate(stored):
        one["rank"] = rank
    samples = [*stored, *collective([0, 0], [9000, 9000], node_id=4, instance=2)]
    run = played(tmp_path, nodes, samples, scaling=Scaling(compute="0.5"))
    got = exported(run, tmp_path / "out")
    assert [got[n].type for n in (1, 2, 3, 4)] == [et_pb2.COMP_NODE] * 3 + [et_pb2.COMM_COLL_NODE]
    assert [got[n].duration_micros for n in (1, 2, 3, 4)] == [(100 - 30) // 2, 9, 3, 7]
    assert [facts_of(got[n])["is_cpu_op"] for n in (1, 2, 3, 4)] == [False] * 4
    changed = json.loads((tmp_path / "out" / "fit.json").read_text())["changed_for_astra_sim"]
    what = "traffic with a storage host: compute of the device for its measured duration, without its bytes"
    assert (changed[what], changed["STORAGE_NODE that is not traffic: a COMP_NODE of its duration"]) == (2, 2)


def uneven(folder: Path, sizes: list[int], *splits: tuple[int, ...]) -> Run:
    """An all-to-all of two ranks."""
    samples = collective([0, 0], [9000, 9000], kind="all_to_all", node_id=1)
    for sample, size in zip(samples, sizes, strict=True):
        sample["size_bytes"] = size
    attributes = [attribute("charkha.in_splits", int64_list=list(one)) for one in splits]
    return played(folder, [comm(1, attr=attributes)], samples)


UNEVEN = "all_to_all of uneven sizes: every rank sends the mean, in even parts"


@pytest.mark.parametrize(
    ("sizes", "splits", "written", "is_changed"),
    [
        ([1000, 3001], (), 2001, True),
        ([800, 800], ((300, 500),), 800, True),
        ([800, 800], ((400, 400),), 800, False),
        ([800, 800], (), 800, False),
    ],
)
def test_an_uneven_all_to_all_has_one_size_on_all_ranks(
    sizes: list[int], splits: tuple[tuple[int, ...], ...], written: int, is_changed: bool, tmp_path: Path
) -> None:
    notes = write(uneven(tmp_path, sizes, *splits), tmp_path / "out")
    nodes = [read_et(tmp_path / "out" / f"trace.{rank}.et")[1][0] for rank in range(2)]
    assert [facts_of(node)["comm_size"] for node in nodes] == [written] * 2
    assert [facts_of(node)["comm_type"] for node in nodes] == [6] * 2
    said = f"2 nodes changed for ASTRA-sim: {UNEVEN}"
    assert [said in text for text in (notes, (tmp_path / "out" / "README.txt").read_text())] == [is_changed] * 2


def test_a_collective_of_one_rank_is_replayed(tmp_path: Path) -> None:
    run = played(tmp_path, [comm(1)], collective([0], [9000], node_id=1, size_bytes=64))
    facts = facts_of(exported(run, tmp_path / "out")[1])
    assert (facts["comm_type"], facts["charkha.comm_type"]) == (5, 0)


def test_groups_are_numbered_from_one_and_all_ranks_have_no_number(tmp_path: Path) -> None:
    samples = [
        *collective([0, 0], [5, 5], node_id=1, instance=0, group="everybody"),
        *collective([0], [5], node_id=2, instance=1, group="tp-first"),
    ]
    run = played(tmp_path, [comm(1), comm(2)], samples)
    got = exported(run, tmp_path / "out")
    assert "pg_name" not in facts_of(got[1])
    assert facts_of(got[2])["pg_name"] == "1"
    assert json.loads((tmp_path / "out" / "groups.json").read_text()) == {"1": [0]}


def test_a_send_names_both_ends_and_its_pair(tmp_path: Path) -> None:
    nodes = [et_pb2.Node(id=1, type=et_pb2.COMM_SEND_NODE), et_pb2.Node(id=2, type=et_pb2.COMM_RECV_NODE)]
    samples = pair(0, 500, instance=6)
    samples[0]["node_id"], samples[1]["node_id"] = 1, 2
    run = played(tmp_path, nodes, samples)
    sent = {"is_cpu_op": False, "comm_size": 1000, "comm_src": 0, "comm_dst": 1, "comm_tag": 6}
    assert facts_of(exported(run, tmp_path / "out")[1]) == sent
    received = {node.id: node for node in read_et(tmp_path / "out" / "trace.1.et")[1]}
    assert facts_of(received[2]) == sent


@pytest.mark.parametrize(("second_post", "expected"), [(100, 0), (99, 2), (0, 2)])
def test_a_post_before_the_completion_of_the_last_one_overlaps(tmp_path: Path, second_post: int, expected: int) -> None:
    first = collective([0, 0], [100, 100], instance=0)
    second = collective([second_post] * 2, [200, 200], instance=1, node_id=9)
    assert overlapping(write_run(tmp_path / "run", [*first, *second])) == (expected, 4)


def test_a_short_one_inside_a_long_one_does_not_hide_the_next(tmp_path: Path) -> None:
    samples: list[Row] = []
    for instance, (post, done) in enumerate([(0, 100), (10, 20), (50, 60)]):
        samples += collective([post, post], [done, done], instance=instance, node_id=instance)
    assert overlapping(write_run(tmp_path / "run", samples)) == (4, 6)


def test_receives_and_groups_of_one_do_not_count(tmp_path: Path) -> None:
    samples = [*pair(0, 500, instance=0), *collective([0], [600], instance=1, node_id=9)]
    assert overlapping(write_run(tmp_path / "run", samples)) == (0, 1)


def test_iterations_do_not_overlap_one_another(tmp_path: Path) -> None:
    samples = [*collective([0, 0], [100, 100]), *collective([0, 0], [100, 100], iteration=1)]
    assert overlapping(write_run(tmp_path / "run", samples))[0] == 0


NOTHING = Judged(Dimension(8, LinkClass.WITHIN_HOST, None), (), "no fit (no measurements): for replaying only")


@pytest.mark.parametrize("can_simulate", [True, False])
def test_the_simulation_is_described_only_if_its_file_exists(can_simulate: bool) -> None:
    text = readme("r", [NOTHING], [], has_groups=False, can_simulate=can_simulate)
    assert ("system-simulate.json" in text) is can_simulate


@pytest.mark.parametrize("has_groups", [True, False])
def test_the_command_line_names_the_groups_only_if_there_are_any(has_groups: bool) -> None:
    text = readme("r", [NOTHING], [], has_groups=has_groups, can_simulate=True)
    assert ("--comm-group-configuration=groups.json" in text) is has_groups


def test_every_class_has_a_row_with_measured_fitted_and_simulated_time() -> None:
    text = readme("r", [judged(*(ring(size) for size in SIZES))], [], has_groups=False, can_simulate=True)
    table = text.partition("between hosts:\n")[2].splitlines()
    assert table[0].split() == ["class", "measured", "fit", "off", "simulated", "off", "as"]
    assert [line.split()[:2] for line in table[1:]] == [["all_reduce", str(size)] for size in SIZES]
    assert all(line.endswith("ring") and line.count("%") == 2 for line in table[1:])


def test_a_simulated_time_that_is_off_shows_its_residual() -> None:
    text = readme("r", [judged(*(to_all(size) for size in SIZES))], [], has_groups=False, can_simulate=True)
    rows = [line for line in text.splitlines() if line.startswith("  all_to_all")]
    assert any("+130." in row for row in rows), rows


def test_limits_are_sentences_of_a_list() -> None:
    text = readme("r", [NOTHING], ["one thing", "another"], has_groups=False, can_simulate=True)
    assert "Where ASTRA-sim differs from the run:\n  - one thing.\n  - another.\n" in text
    assert "Where ASTRA-sim differs" not in readme("r", [NOTHING], [], has_groups=False, can_simulate=True)


MICROS = 1000


def test_a_run_that_was_aborted_has_no_measured_trace_to_hand_on(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", collective([0, 0], [9000, 9000]))
    with pytest.raises(ResultError, match="run: has no measured trace: only a run that was played to its end"):
        write(run, tmp_path / "out")


def test_the_network_has_the_fit_in_the_units_of_the_simulator(tmp_path: Path) -> None:
    samples = [
        one
        for instance, size in enumerate((1_000, 1_000_000, 100_000_000))
        for one in collective(
            [instance * 10**9] * 2,
            [instance * 10**9 + 2 * 5000 + size] * 2,
            size_bytes=size,
            instance=instance,
            node_id=instance,
        )
    ]
    hosts = {"host_index": [0, 1]}
    run = played(tmp_path, [comm(0), comm(1), comm(2)], samples, topology=hosts)
    notes = write(run, tmp_path / "out")
    assert notes == ["between hosts, 2 ranks: good: every class within 10 % of the fit and of the simulated time"]
    network = yaml.safe_load((tmp_path / "out" / "network.yml").read_text())
    assert network["topology"] == ["Switch"]
    assert network["npus_count"] == [2]
    # Two messages of half the size each follow one another: a byte on the port takes 1 ns, a message 5 us over 2 hops.
    assert network["bandwidth"] == [pytest.approx(1e9 / GB, rel=1e-3)]
    assert network["latency"] == [pytest.approx(2500, rel=1e-2)]
    system = json.loads((tmp_path / "out" / "system-simulate.json").read_text())
    assert (system["replay-only"], system["all-reduce-implementation"]) == (0, ["ring"])


def test_without_a_fit_the_folder_simulates_nothing_and_says_why(tmp_path: Path) -> None:
    run = played(tmp_path, [comm(1)], collective([0, 0], [9, 9], node_id=1, size_bytes=0))
    note, changed = write(run, tmp_path / "out")
    assert changed.startswith("2 nodes changed for ASTRA-sim: all_reduce of fewer bytes than ranks: a broadcast")
    assert note.startswith("within a host, 2 ranks: no fit (1 classes without a time (groups of one, size 0,")
    assert not (tmp_path / "out" / "system-simulate.json").exists()
    assert "system-simulate" not in (tmp_path / "out" / "README.txt").read_text()
    assert "PLACEHOLDERS" in (tmp_path / "out" / "network.yml").read_text()


def test_overlapping_collectives_are_in_the_notes_the_readme_and_the_facts(tmp_path: Path) -> None:
    samples = [one for number in (1, 2) for one in collective([0, 0], [9000, 9000], node_id=number, instance=number)]
    run = played(tmp_path, [comm(1), comm(2)], samples)
    notes = write(run, tmp_path / "out")
    expected = "2 of 4 communications overlap another one on their rank. ASTRA-sim runs one at a time per rank"
    assert any(note.startswith(expected) for note in notes)
    assert expected in (tmp_path / "out" / "README.txt").read_text()
    facts = json.loads((tmp_path / "out" / "fit.json").read_text())
    assert facts["overlapping_communications"] == {"overlapping": 2, "measured": 4}


def test_the_facts_have_the_simulated_time_of_every_class(tmp_path: Path) -> None:
    run = played(tmp_path, [comm(1)], collective([0, 0], [9000, 9000], node_id=1))
    write(run, tmp_path / "out")
    [observation] = json.loads((tmp_path / "out" / "fit.json").read_text())["dimensions"][0]["observations"]
    assert (observation["collective"], observation["simulated_as"]) == ("all_reduce", "ring")
    assert observation["simulated_ns"] == pytest.approx(9000, abs=1)
    assert observation["simulated_residual_percent"] == pytest.approx(0, abs=0.1)
