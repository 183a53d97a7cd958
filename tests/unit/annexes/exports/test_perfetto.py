"""The time line for Perfetto, read back with its own protobuf classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emulator.annexes.exports.perfetto import write
from tests.support.runs import collective, ranks, write_run

pytest.importorskip("perfetto")


def slices(folder: Path, samples: list[Any], **facts: Any) -> list[tuple[str, str, int, int, str]]:
    """(process, track, start, end, name) of every slice, in order of the file."""
    write(write_run(folder / "run", samples, **facts), folder / "out")
    return read_slices(folder / "out")


def read_slices(path: Path) -> list[tuple[str, str, int, int, str]]:
    """(process, track, start, end, name) of every slice of a file, in its order."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    tracks: dict[int, tuple[str, str]] = {}
    begun: dict[int, tuple[int, str]] = {}
    found = []
    for packet in Trace.FromString(path.read_bytes()).packet:
        if packet.HasField("track_descriptor"):
            one = packet.track_descriptor
            name = one.process.process_name
            tracks[one.uuid] = (tracks[one.parent_uuid][0], one.name) if one.parent_uuid else (name, "")
        elif packet.track_event.type == packet.track_event.TYPE_SLICE_BEGIN:
            begun[packet.track_event.track_uuid] = packet.timestamp, packet.track_event.name
        else:
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
