from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emulator.control.observations import Completions
from emulator.errors import RemoteProtocolError
from emulator.results.run_folder.catalogue import NodeCatalogue
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.trace.meaning.model import CommKind, Communication, Group, RankProgram, Workload
from tests.support.runs import manifest


def program(rank: int, communications: list[Communication]) -> RankProgram:
    nothing = np.zeros(0, np.int64)
    return RankProgram(rank, nothing, np.zeros(0, np.int8), nothing, nothing, nothing, dict(enumerate(communications)))


REDUCE = Communication(2**63 + 5, "ar", 0, CommKind.ALL_REDUCE, 1, 4096, 0, 3, traced_duration_micros=17)
SEND = Communication(4, "send", 1, CommKind.SEND, 0, 64, 1, 0, peer=1, tag=9)
RECV = replace(SEND, node_id=8, kind=CommKind.RECV, peer=0)
WORKLOAD = Workload(
    programs=[program(0, [REDUCE, SEND]), program(1, [RECV, replace(REDUCE, node_id=6)]), program(2, [])],
    groups=[Group("", (0, 1, 2)), Group("dp", (0, 1))],
    instances=2,
    window=1,
    warnings={},
    deducted_ns=(0, 0, 0),
)


def done(rank: list[int], node_id: list[int], *, arrival_ns: int = 0, iteration: int = 0) -> Completions:
    numbers = np.arange(len(rank))
    return Completions(
        iteration,
        np.array(rank),
        np.array(node_id, np.uint64),
        post_ns=numbers,
        done_ns=numbers + 100,
        arrival_ns=np.full(len(rank), arrival_ns),
        bytes_sent=numbers,
        bytes_received=numbers,
        early=numbers == 1,
        read_delay_ns=numbers - 1,
        core_wait_ns=numbers - 1,
    )


def recorded(folder: Path, *completions: Completions) -> dict[tuple[int, int], dict[str, object]]:
    catalogue = NodeCatalogue(WORKLOAD, algorithm_of=lambda node: node.name + "!", ideal_ns=np.array([-1, 70]))
    with RunWriter(folder, manifest()) as writer:
        writer.add(RunTable.SAMPLES, catalogue.samples(completions))
    rows = read_run(folder).table(RunTable.SAMPLES).to_pylist()
    return {(row["rank"], row["node_id"]): row for row in rows}


def test_a_completion_becomes_a_whole_sample(tmp_path: Path) -> None:
    rows = recorded(tmp_path / "run", done([1, 0, 0], [8, 4, 2**63 + 5], arrival_ns=55, iteration=-1))
    assert rows[1, 8] == {
        "iteration": -1,
        "rank": 1,
        "node_id": 8,
        "name": "send",
        "kind": "recv",
        "group": "world",
        "group_size": 2,
        "index_in_group": 0,
        "instance": 1,
        "peer": 0,
        "size_bytes": 64,
        "algorithm": "send!",
        "post_ns": 0,
        "done_ns": 100,
        "arrival_ns": 55,
        "bytes_sent": 0,
        "bytes_received": 0,
        "early": False,
        "read_delay_ns": None,
        "core_wait_ns": None,
        "traced_ns": None,
        "ideal_ns": 70,
        "remaining_ideal_ns": None,
        "network_ns": None,
        "network_crossings": None,
        "stalled_ns": None,
        "port_ns": None,
    }
    reduce = rows[0, 2**63 + 5]
    assert (reduce["group"], reduce["group_size"], reduce["index_in_group"], reduce["peer"]) == ("dp", 2, 3, None)
    assert (reduce["traced_ns"], reduce["ideal_ns"], reduce["post_ns"]) == (17_000, None, 2)
    assert rows[0, 4]["early"] is True


def test_nothing_arrived_is_no_arrival(tmp_path: Path) -> None:
    assert recorded(tmp_path / "run", done([0], [4]))[0, 4]["arrival_ns"] is None


def test_samples_of_several_iterations_are_ordered_by_iteration_and_rank() -> None:
    catalogue = NodeCatalogue(WORKLOAD, algorithm_of=lambda _: "")
    parts = [done([1], [8], iteration=1), done([0, 1], [4, 6]), done([0], [4], iteration=1)]
    found = catalogue.samples(parts)
    assert list(zip(found["iteration"], found["rank"], found["node_id"], strict=True)) == [
        (0, 0, 4),
        (0, 1, 6),
        (1, 0, 4),
        (1, 1, 8),
    ]


def test_no_completions_are_no_samples(tmp_path: Path) -> None:
    assert recorded(tmp_path / "run", done([], [])) == {}


@pytest.mark.parametrize(("rank", "node_id"), [(0, 8), (0, 2**64 - 1), (2, 4), (3, 4), (-1, 4)])
def test_an_agent_that_reports_what_it_was_not_given_is_caught(rank: int, node_id: int) -> None:
    catalogue = NodeCatalogue(WORKLOAD, algorithm_of=lambda _: "")
    with pytest.raises(RemoteProtocolError, match=f"{node_id}|{rank}"):
        catalogue.samples([done([rank], [node_id])])
