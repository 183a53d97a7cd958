"""The time line for Perfetto, read back with its own protobuf classes."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emulator.annexes.exports.command import of_span
from emulator.annexes.exports.formats import JUNIT, Format
from emulator.annexes.exports.perfetto import PERFETTO, write, write_trace_line
from emulator.annexes.trace_kit.time_line import computed_time_line
from emulator.errors import InputError
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.trace.meaning.workload import build_workload
from tests.support.runs import collective, columns, manifest, ranks, write_run
from tests.support.traces import Node, coll, node, rank_trace, recv, send

pytest.importorskip("perfetto")


def slices(folder: Path, samples: list[Any], **facts: Any) -> list[tuple[str, str, int, int, str]]:
    """(process, track, start, end, name) of every slice, in order of the file."""
    write(write_run(folder / "run", samples, **facts), folder / "out")
    return read_slices(folder / "out")


def packets(path: Path) -> list[Any]:
    """All that a file has."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    return list(Trace.FromString(path.read_bytes()).packet)


def read_slices(path: Path) -> list[tuple[str, str, int, int, str]]:
    """(process, track, start, end, name) of every slice of a file, in its order."""
    tracks: dict[int, tuple[str, str]] = {}
    begun: dict[int, tuple[int, str]] = {}
    found = []
    for packet in packets(path):
        if packet.HasField("track_descriptor"):
            one = packet.track_descriptor
            name = one.process.process_name
            tracks[one.uuid] = (tracks[one.parent_uuid][0], one.name) if one.parent_uuid else (name, "")
        elif packet.track_event.type == packet.track_event.TYPE_SLICE_BEGIN:
            begun[packet.track_event.track_uuid] = packet.timestamp, packet.track_event.name
        elif packet.track_event.type == packet.track_event.TYPE_SLICE_END:
            start, name = begun.pop(packet.track_event.track_uuid)
            found.append((*tracks[packet.track_event.track_uuid], start, packet.timestamp, name))
    assert not begun
    return found


def test_an_iteration_of_the_job_lasts_from_the_first_start_to_the_last_end(tmp_path: Path) -> None:
    found = slices(tmp_path, collective([0, 0], [9, 9]), iterations={0: ranks((10, 90), (5, 80))})
    assert ("job", "iterations", 5, 90, "iteration 0") in found
    assert ("rank 1", "iterations", 5, 80, "iteration 0") in found


def test_an_iteration_that_a_rank_did_not_complete_is_not_one_of_the_job(tmp_path: Path) -> None:
    found = slices(tmp_path, collective([0, 0], [9, 9]), iterations={0: ranks((10, 90))})
    assert [one[:2] for one in found if one[1] == "iterations"] == [("rank 0", "iterations")]


def test_a_warm_up_has_its_own_name(tmp_path: Path) -> None:
    found = slices(tmp_path, collective([0, 0], [9, 9]), iterations={-1: ranks((0, 9), (0, 9))})
    assert ("job", "iterations", 0, 9, "warm-up -1") in found


def test_communications_that_overlap_get_tracks_of_their_own(tmp_path: Path) -> None:
    times = [(0, 100), (50, 150), (100, 120), (130, 140)]
    samples = [
        row
        for number, (post, done) in enumerate(times)
        for row in collective([post] * 2, [done] * 2, instance=number, node_id=number)
    ]
    found = [one for one in slices(tmp_path, samples) if one[0] == "rank 0" and one[1].startswith("world")]
    assert [one[1:4] for one in found] == [
        ("world", 0, 100),
        ("world (2)", 50, 150),
        ("world", 100, 120),
        ("world", 130, 140),
    ]


def test_slices_of_every_node_that_takes_time(tmp_path: Path) -> None:
    def nodes(message: Node) -> list[Node]:
        group = coll(2, "all_reduce", 8, pg="tp", group_ranks=(0, 1), deps=[1])
        return [node(1, duration=5, name="gemm"), group, node(3, duration=9, cpu=True), message, node(5)]

    ranks = [nodes(send(4, 1, deps=[2])), nodes(recv(4, 0, deps=[2]))]
    workload = build_workload([rank_trace(rank, each) for rank, each in enumerate(ranks)])
    line = computed_time_line(workload, np.array([2_000, 3_000], dtype=np.int64))
    spans = list(zip(line.start_ns, line.end_ns, strict=True))
    write_trace_line(workload, spans, tmp_path / "x", names=lambda rank: [one.name for one in ranks[rank]])
    assert [one for one in read_slices(tmp_path / "x") if one[0] == "rank 0"] == [
        ("rank 0", "device", 0, 5_000, "gemm"),
        ("rank 0", "CPU", 0, 9_000, ""),
        ("rank 0", "group tp", 5_000, 7_000, ""),
        ("rank 0", "messages", 7_000, 10_000, ""),
    ]


def test_flows_by_time_are_counters_that_end_where_a_pause_begins(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", manifest()) as writer:
        writer.add(RunTable.SAMPLES, columns(collective([0, 0], [9, 9])))
        bins = {"start_ns": [1000, 2000, 4000], "bytes": [125, 250, 125]}
        ends = {"src": 0, "dst": 1, "qpn": 17, "bin_ns": 1000, "retransmits": 0, "ecn_marks": 0}
        writer.add(RunTable.TIMELINE, ends | bins)
    write(read_run(tmp_path / "run"), tmp_path / "out")
    tracks = [one.track_descriptor.counter for one in packets(tmp_path / "out")]
    assert [one.unit_name for one in tracks if one.unit_name] == ["bit/s"]
    rates = [(1000, 10**9), (2000, 2 * 10**9), (3000, 0), (4000, 10**9), (5000, 0)]
    assert counted(tmp_path / "out") == [("from rank 0, queue pair 17", *one) for one in rates]


def test_an_event_of_the_device_is_a_slice_at_its_port(tmp_path: Path) -> None:
    times = {"planned_ns": [10, 40, 20], "time_ns": [12, 41, 25], "uncertainty_ns": [1, 1, 2]}
    with RunWriter(tmp_path / "run", manifest()) as writer:
        writer.add(RunTable.SAMPLES, columns(collective([0, 0], [9, 9])))
        writer.add_iteration(0, ranks((0, 90), (0, 80)))
        writer.add(
            RunTable.EVENTS,
            times
            | {"name": ["a", "a", "b"], "edge": ["begin", "end", "begin"], "interface": ["p1", "p1", ""]}
            | {"device": "sw0", "what": "port down", "stops_traffic": True, "seen_by": "kernel"},
        )
    write(read_run(tmp_path / "run"), tmp_path / "out")
    found = [one for one in read_slices(tmp_path / "out") if one[0] == "device"]
    assert found == [("device", "sw0:p1", 12, 41, "port down"), ("device", "sw0", 25, 90, "port down")]


def test_traffic_that_moved_is_an_instant_at_the_port_that_it_left(tmp_path: Path) -> None:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    with RunWriter(tmp_path / "run", manifest()) as writer:
        writer.add(RunTable.SAMPLES, columns(collective([0, 0], [9, 9])))
        writer.add(
            RunTable.EVENTS,
            {"name": "rank 0 to rank 1 (queue pair 17)", "device": "h0", "stops_traffic": False, "seen_by": "agent"}
            | {"edge": ["begin", "end"], "interface": ["eth0", "eth1"], "time_ns": [40, 70], "uncertainty_ns": [0, 3]}
            | {"what": ["migration to eth1", "migration back to eth0"]},
        )
    names, found = {}, []
    for span in ((-math.inf, math.inf), (50, 90)):
        write(read_run(tmp_path / "run"), tmp_path / "out", span=span)
        packets = Trace.FromString((tmp_path / "out").read_bytes()).packet
        names |= {one.track_descriptor.uuid: one.track_descriptor.name for one in packets}
        found.append([
            (names[one.track_event.track_uuid], one.timestamp, one.track_event.name)
            for one in packets
            if one.track_event.type == one.track_event.TYPE_INSTANT
        ])  # fmt: skip
        (tmp_path / "out").unlink()
    both = [("h0:eth0", 40, "migration to eth1"), ("h0:eth1", 70, "migration back to eth0")]
    assert found == [both, both[1:]]


def counted(path: Path) -> list[tuple[str, int, int]]:
    """(counter, time, value), in the order of the file."""
    names, found = {}, []
    for one in packets(path):
        names |= {one.track_descriptor.uuid: one.track_descriptor.name}
        if one.track_event.type == one.track_event.TYPE_COUNTER:
            found.append((names[one.track_event.track_uuid], one.timestamp, one.track_event.counter_value))
    return found


def observed(folder: Path) -> Path:
    """A run with readings of a queue, and of a counter that does not change."""
    readings = {"time_ns": [10**9, 2 * 10**9, 3 * 10**9], "device": "sw0", "interface": "p1"}
    with RunWriter(folder, manifest()) as writer:
        writer.add(RunTable.SAMPLES, columns(collective([10**9] * 2, [4 * 10**9] * 2)))
        for counter, values in (
            ("qdisc_backlog_bytes", [0, 700, 0]),
            ("qdisc_drops", [5, 5, 8]),
            ("socket_drops", [1, 1, 1]),
        ):
            writer.add(RunTable.COUNTERS, readings | {"counter": counter, "value": values})
    return folder


def test_counters_of_the_device_that_changed_are_levels_and_increases(tmp_path: Path) -> None:
    write(read_run(observed(tmp_path / "run")), tmp_path / "out")
    assert counted(tmp_path / "out") == [
        ("sw0:p1 qdisc_backlog_bytes", 10**9, 0),
        ("sw0:p1 qdisc_backlog_bytes", 2 * 10**9, 700),
        ("sw0:p1 qdisc_backlog_bytes", 3 * 10**9, 0),
        ("sw0:p1 qdisc_drops", 10**9, 0),
        ("sw0:p1 qdisc_drops", 2 * 10**9, 3),
        ("sw0:p1 qdisc_drops", 3 * 10**9, 0),
    ]


def test_a_part_of_a_run_has_what_happened_in_it_and_the_values_at_its_beginning(tmp_path: Path) -> None:
    run = read_run(observed(tmp_path / "run"))
    write(run, tmp_path / "out", span=(1.2e9, 2.5e9))  # times of a span begin at the first post
    assert counted(tmp_path / "out") == [
        ("sw0:p1 qdisc_backlog_bytes", 22 * 10**8, 700),
        ("sw0:p1 qdisc_backlog_bytes", 3 * 10**9, 0),
        ("sw0:p1 qdisc_drops", 22 * 10**8, 3),
        ("sw0:p1 qdisc_drops", 3 * 10**9, 0),
    ]
    assert [one[2:4] for one in read_slices(tmp_path / "out")] == [(10**9, 4 * 10**9)] * 2
    with pytest.raises(InputError, match="the run has nothing between them"):
        write(run, tmp_path / "none", span=(3.5e9, 4e9))


@pytest.mark.parametrize(
    ("form", "begin", "until", "said"),
    [
        (PERFETTO, "2s", "1s", "--until 1s: is not after --from 2s"),
        (PERFETTO, "5", None, "--from: '5' is not a time"),
        (JUNIT, None, "1s", "junit has no part of a run"),
    ],
)
def test_a_part_of_a_run_that_cannot_be_is_refused(
    form: Format, begin: str | None, until: str | None, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        of_span(form, begin, until)


def test_a_part_of_a_run_may_have_one_edge(tmp_path: Path) -> None:
    run = read_run(observed(tmp_path / "run"))
    of_span(PERFETTO, None, "500ms").write(run, tmp_path / "out")
    assert {time_ns for _, time_ns, _ in counted(tmp_path / "out")} == {10**9}
