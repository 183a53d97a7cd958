"""What the Flight Recorder's dumps say, and what becomes of it."""

import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from emulator.annexes.importers.flight_recorder_dumps import is_flight_recorder
from emulator.annexes.importers.flight_recorder_reading import read_flight_recorder
from emulator.annexes.importers.model import Fate, NodeResource
from emulator.errors import TraceError
from emulator.trace.meaning.model import CommKind
from tests.support.import_sources import (
    RANKS,
    counted,
    imported,
    recorder_dump,
    recorder_entry,
    write_recorder_json,
    write_recorder_pickles,
)

US = 1000


read = partial(imported, "flight-recorder")


def write(folder: Path, dumps: dict[int, dict[str, Any]], *, name: str = "nccl_trace_rank_") -> Path:
    folder.mkdir(exist_ok=True)
    for rank, dump in dumps.items():
        (folder / f"{name}{rank}").write_bytes(pickle.dumps(dump, 2))
    return folder


def job(entries: dict[int, list[dict[str, Any]]], **config: str) -> dict[int, dict[str, Any]]:
    groups = {"0": {"desc": "default_pg", "ranks": str(list(entries))}} | {
        name.removeprefix("g"): {"desc": "undefined", "ranks": ranks} for name, ranks in config.items()
    }
    return {rank: {"version": "2.10", "pg_config": groups, "entries": own} for rank, own in entries.items()}


def all_reduce(seq: int, *, at_us: int = 0, **facts: Any) -> dict[str, Any]:
    return recorder_entry(seq, "all_reduce", [256], seq=seq, at_us=at_us or 100 * seq, **facts)


@pytest.mark.parametrize("writer", [write_recorder_pickles, write_recorder_json])
def test_a_dump_becomes_the_calls_that_it_lists(writer: Any, tmp_path: Path) -> None:
    writer(tmp_path)
    trace = read(tmp_path)
    assert [one.rank for one in trace.ranks] == list(range(RANKS))
    facts = [(one.kind, one.size_bytes, one.ranks, one.peer) for one in trace.ranks[2].operations]
    assert facts == [
        (CommKind.ALL_REDUCE, 4000, (), -1),
        (CommKind.ALL_GATHER, 256, (2, 3), -1),
        (CommKind.SEND, 256, (2, 3), 1),
        (CommKind.REDUCE_SCATTER, 16384, (), -1),
    ]
    assert trace.ranks[0].nodes[0].duration_ns == 250_000


def test_times_between_calls_are_time_on_the_cpu(tmp_path: Path) -> None:
    write_recorder_pickles(tmp_path)
    nodes = read(tmp_path).ranks[0].nodes
    gaps = [(one.duration_ns, one.deps) for one in nodes if one.place is NodeResource.CPU]
    # The all-reduce was done at 1,500 µs: what came 500 µs later may have waited for it, as the rest for the CPU.
    assert gaps == [(500 * US, (1,)), (100 * US, (2,)), (900 * US, (4,))]
    reduce_scatter = nodes[-1]
    assert reduce_scatter.operation is not None
    assert reduce_scatter.deps == (1, 6)  # the collective before it in its group, and the time on the CPU
    assert reduce_scatter.start_ns == 2000 * US


def test_what_is_not_recorded_is_counted(tmp_path: Path) -> None:
    entries = [
        recorder_entry(0, "broadcast", [8], seq=1, at_us=1),
        recorder_entry(1, "all_to_all", [8], seq=2, at_us=2),
        recorder_entry(2, "all_reduce", [8], group="7", seq=1, at_us=3),
        recorder_entry(3, "frobnicate", [8], seq=3, at_us=4),
        recorder_entry(4, "all_reduce", [8], seq=4, at_us=5, input_dtypes=["Quaternion"]),
        all_reduce(5, state="scheduled", retired=False),
    ]
    trace = read(write(tmp_path / "job", job({0: entries, 1: entries})))
    said = {(fate, what) for fate, what, _ in trace.losses}
    for expected in (
        (Fate.GUESSED, "root of a broadcast: the first rank of the group"),
        (Fate.GUESSED, "splits of an all_to_all are not recorded: even"),
        (Fate.GUESSED, "ranks of a process group are not recorded: those that call in it"),
        (Fate.DROPPED, "calls of unknown name 'frobnicate'"),
        (Fate.DROPPED, "all_reduce with elements of unknown size"),
        (Fate.INFERRED, "calls that had not ended: played like the others"),
    ):
        assert expected in said, expected


def test_calls_that_not_all_ranks_kept_are_left_out(tmp_path: Path) -> None:
    """The buffer of rank 0 begins later, rank 1 stopped earlier."""
    late = [all_reduce(seq) for seq in range(3, 8)]
    early = [all_reduce(seq) for seq in range(1, 7)]
    trace = read(write(tmp_path / "job", job({0: late, 1: early})))
    assert [len(one.operations) for one in trace.ranks] == [4, 4]
    assert counted(trace, Fate.DROPPED) == {"all_reduce that not every rank of its process group recorded": 3}


def test_a_hole_is_no_loss_but_an_error(tmp_path: Path) -> None:
    holed = [all_reduce(seq) for seq in (1, 2, 4)]
    whole = [all_reduce(seq) for seq in range(1, 5)]
    with pytest.raises(TraceError, match=r"rank 0: .*nccl_trace_rank_0, record 2: collective 3 of its process group"):
        read(write(tmp_path / "job", job({0: holed, 1: whole})))


def test_coalesced_calls_share_a_number(tmp_path: Path) -> None:
    entries = [all_reduce(1), all_reduce(1), recorder_entry(9, "coalesced", [], seq=1, at_us=101)]
    trace = read(write(tmp_path / "job", job({0: entries, 1: entries})))
    assert [len(one.operations) for one in trace.ranks] == [2, 2]
    with pytest.raises(TraceError, match="collective 1 has fewer parts than on other ranks"):
        read(write(tmp_path / "job", job({0: entries, 1: entries[1:]})))


def test_messages_of_a_batch_are_issued_together(tmp_path: Path) -> None:
    entries = {
        rank: [
            recorder_entry(0, f"recv {rank}<-{1 - rank}", [8], seq=1, at_us=1),
            recorder_entry(1, f"send {rank}->{1 - rank}", [8], seq=1, at_us=1),
        ]
        for rank in range(2)
    }
    trace = read(write(tmp_path / "job", job(entries)))
    assert [node.deps for node in trace.ranks[0].nodes] == [(), ()]


def test_the_rank_is_that_of_the_messages_then_that_of_the_name(tmp_path: Path) -> None:
    message = {
        0: [recorder_entry(0, "send 0->1", [8], seq=1, at_us=1)],
        1: [recorder_entry(0, "recv 1<-0", [8], seq=1, at_us=1)],
    }
    swapped = job(message)
    folder = write(tmp_path / "swapped", {0: swapped[1], 1: swapped[0]})
    with pytest.raises(TraceError, match="its messages are those of rank 1, its name ends with 0"):
        read(folder)
    nameless = write(tmp_path / "nameless", swapped)
    for path in list(nameless.iterdir()):
        path.rename(nameless / f"dump-{'ab'[int(path.name[-1])]}")
    assert [one.files[0][-1] for one in read(nameless).ranks] == ["a", "b"]


def test_splits_of_tensor_lists_are_kept(tmp_path: Path) -> None:
    def exchange(sent: list[int], received: list[int]) -> dict[str, Any]:
        shapes = {"input_sizes": [[one] for one in sent], "output_sizes": [[one] for one in received]}
        types = {"input_dtypes": ["Float"] * 2, "output_dtypes": ["Float"] * 2}
        return recorder_entry(0, "all_to_all", [1], seq=1, at_us=1, **shapes, **types)

    trace = read(write(tmp_path / "job", job({0: [exchange([1, 2], [1, 3])], 1: [exchange([3, 4], [2, 4])]})))
    assert trace.ranks[0].operations[0].send_splits == (4, 8)
    with pytest.raises(TraceError, match="8 bytes to rank 1; rank 1 has 20 bytes from it"):
        read(write(tmp_path / "bad", job({0: [exchange([1, 2], [1, 3])], 1: [exchange([3, 4], [5, 4])]})))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"input_sizes": [[-5]]}, "record 1: has a tensor of the shape"),
        ({"input_sizes": [[1 << 60]]}, "has a tensor of the shape"),
        ({"collective_seq_id": "x"}, "Expected `int`, got `str`"),
        ({"profiling_name": "nccl:send 0-1"}, "a send names both ranks"),
        ({"time_created_ns": 0}, "more than a year after the first call"),
    ],
)
def test_impossible_entries_are_named(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    entries = [all_reduce(1) | change, all_reduce(2)]
    with pytest.raises(TraceError, match="nccl_trace_rank_") as caught:
        read(write(tmp_path / "job", job({0: entries, 1: entries})))
    assert said in str(caught.value)


def test_a_hostile_dump_is_refused_with_its_place(tmp_path: Path) -> None:
    dump = pickle.dumps(recorder_dump(0), 2)
    (tmp_path / "nccl_trace_rank_0").write_bytes(dump[:-1] + b"cos\nsystem\n(X\x04\x00\x00\x00trueR.")
    with pytest.raises(
        TraceError, match=f"nccl_trace_rank_0, offset {len(dump) - 1}: .*something other than plain values"
    ):
        read_flight_recorder(tmp_path)


def test_other_files_are_not_taken_for_dumps() -> None:
    assert not is_flight_recorder(pickle.dumps({"a": 1}))
    assert not is_flight_recorder(json.dumps({"traceEvents": [], "pg_config": {}}).encode())
    assert not is_flight_recorder(b"pg_config: text")
