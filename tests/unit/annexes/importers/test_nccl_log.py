"""What NCCL logs of its calls, and what becomes of it."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from emulator.annexes.importers.model import Fate, NodeResource
from emulator.errors import TraceError
from emulator.trace.meaning.model import CommKind
from tests.support.import_sources import (
    MIB,
    RANKS,
    counted,
    imported,
    log_call,
    log_lines,
    log_prefix,
    write_nccl_log,
)

read = partial(imported, "nccl-log")


def written(folder: Path, change: Callable[[int, list[str]], Sequence[str]]) -> Path:
    """A log for each rank, changed."""
    for rank in range(RANKS):
        (folder / f"rank{rank}.log").write_text("\n".join(change(rank, log_lines(rank))) + "\n")
    return folder


def test_sizes_are_in_chakra_s_terms(tmp_path: Path) -> None:
    write_nccl_log(tmp_path)
    trace = read(tmp_path)
    facts = [(one.kind, one.size_bytes, one.ranks, one.root, one.peer) for one in trace.ranks[3].operations]
    assert facts == [
        (CommKind.ALL_REDUCE, 4 * MIB, (), -1, -1),
        (CommKind.ALL_GATHER, 4096, (2, 3), -1, -1),
        (CommKind.REDUCE_SCATTER, 4096 * 2 * 4, (), -1, -1),  # bfloat16, what each of four ranks gets
        (CommKind.BROADCAST, 400, (), 2, -1),
        (CommKind.SEND, 308, (2, 3), -1, 0),
        (CommKind.RECV, 308, (2, 3), -1, 0),
        (CommKind.ALL_TO_ALL, 512 * 4 * 4, (), -1, -1),
    ]


def test_calls_of_a_stream_follow_each_other_and_those_of_a_group_do_not(tmp_path: Path) -> None:
    write_nccl_log(tmp_path)
    deps = [node.deps for node in read(tmp_path).ranks[0].nodes]
    assert deps == [(), (1,), (2,), (3,), (4,), (4,), (5, 6)]


def test_streams_run_side_by_side(tmp_path: Path) -> None:
    def other_stream(rank: int, lines: list[str]) -> list[str]:
        return [line.replace(f"0x55{rank}", "0x77") if "AllGather" in line else line for line in lines]

    deps = [node.deps for node in read(written(tmp_path, other_stream)).ranks[0].nodes]
    assert deps[:3] == [(), (), (1,)]


def test_times_with_fractions_are_taken_over(tmp_path: Path) -> None:
    def timed(_: int, lines: list[str]) -> list[str]:
        return [f"[2026-01-02 03:04:{at:02}.500000] {line}" for at, line in enumerate(lines)]

    gaps = [
        node.duration_ns for node in read(written(tmp_path, timed)).ranks[1].nodes if node.place is NodeResource.CPU
    ]
    assert gaps == [1_000_000_000] * 4 + [2_000_000_000]  # send and receive are one group


def test_without_init_lines_ranks_are_guessed(tmp_path: Path) -> None:
    def calls(rank: int, lines: list[str]) -> list[str]:
        return [line for line in lines if f"comm 0x5555{rank}0 [" in line]

    trace = read(written(tmp_path, calls))
    assert [one.files[0][-5] for one in trace.ranks] == ["0", "1", "2", "3"]
    assert trace.losses.number(Fate.GUESSED) == RANKS


def test_a_part_of_the_world_needs_the_init_lines(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"a communicator of 2 ranks, and the log is of 4.*SUBSYS=INIT,COLL"):
        read(written(tmp_path, lambda _, lines: [line for line in lines if "Init" not in line]))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("count 1024 ", "count ", "rank1.log, line 5: a call of NCCL in a form that is not known"),
        ("key 1 - Init", "key 1 9- Init", "rank1.log, line 3: an Init line of NCCL in a form that is not known"),
        ("datatype 7", "datatype 77", "rank1.log, line 4: data type 77 is not known; known: 0 to "),
        ("root 2 comm", "root 9 comm", "rank1.log, line 7: root 9 is not a rank of a communicator of 4 ranks"),
        ("[nranks=4]", "[nranks=5]", "rank1.log, line 4: a communicator of 5 ranks, which had 4 at its start"),
        ("rank 1 nranks 4", "rank 0 nranks 4", "rank 0 of its communicator is also another process"),
        ("count 4096", "count 4097", "rank 1: .*rank1.log, line 6: reduce_scatter of .*rank 0 has"),
        ("commId 0xdcafe", "commId 0xdcaff", "communicator of 4 ranks; . of them are in the files"),
    ],
)
def test_damage_is_named_with_its_line(old: str, new: str, said: str, tmp_path: Path) -> None:
    def change(rank: int, lines: list[str]) -> list[str]:
        return [line.replace(old, new, 1) for line in lines] if rank == 1 else lines

    with pytest.raises(TraceError, match=said):
        read(written(tmp_path, change))


def test_a_log_that_was_cut_is_read_up_to_there(tmp_path: Path) -> None:
    written(tmp_path, lambda _, lines: lines)
    path = tmp_path / "rank2.log"
    path.write_text(path.read_text()[:-40])
    trace = read(tmp_path)
    assert [len(one.operations) for one in trace.ranks] == [6] * RANKS
    dropped = counted(trace, Fate.DROPPED)
    assert dropped == {
        "calls whose line is cut off at the end of the file": 1,
        "all_to_all that not every rank of its process group recorded": 3,
    }


def test_what_is_unknown_or_goes_nowhere_is_counted(tmp_path: Path) -> None:
    def more(rank: int, lines: list[str]) -> list[str]:
        own = log_call(rank, "Send", 4, 5, comm=f"0x5555{rank}0", ranks=4, root=rank)
        put = log_call(rank, "PutSignal", 4, 5, comm=f"0x5555{rank}0", ranks=4)
        return [*lines, own, put]

    dropped = counted(read(written(tmp_path, more)), Fate.DROPPED)
    assert dropped == {"messages of a rank to itself": 4, "calls of unknown name 'PutSignal'": 4}


def test_a_log_without_calls_says_how_to_record(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(f"{log_prefix(0)}ncclCommInitRank comm 0x1 rank 0 nranks 1 - Init COMPLETE\n")
    with pytest.raises(TraceError, match="holds no call of NCCL: record with NCCL_DEBUG=INFO"):
        read(tmp_path)
