"""Damaged traces: an error that names the file, or a trace that is whole; never anything else."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from emulator.annexes.importers.registry import check_complete, import_trace, importer_named
from emulator.annexes.importers.writing import write_imported
from emulator.errors import InputError
from emulator.trace.files.load import load_trace
from emulator.trace.meaning.workload import build_workload
from tests.support.pytorch_traces import HostDocument, KinetoDocument, data_parallel_host, data_parallel_rank, tensor

EXAMPLES = int(os.environ.get("CHARKHA_FUZZ_EXAMPLES", "400"))
FIRST = int(os.environ.get("CHARKHA_FUZZ_FIRST", "0"))
RANKS = 2
JUNK = [
    *(
        None,
        True,
        False,
        -1,
        0,
        1,
        2,
        1 << 40,
        1 << 62,
        1 << 70,
        -(1 << 70),
        1.5,
        1e308,
        -1e308,
        "",
        "x",
        "1",
        "\udc80",
    ),
    *("[0, 1]", "[0, ...]", "allreduce", "record_param_comms", "c10d::send", "Float8_e4m3fn", "cpu_op", "kernel"),
    *([], [[]], {}, {"a": 1}, [1, 2, 3, 4, 5, "cuda:0"], [[-1, -1, 0, -5, 4, ""]]),
]


@pytest.mark.timeout(0)
def test_damage_is_an_error_that_names_the_file_or_leaves_a_whole_trace(tmp_path: Path) -> None:
    """What comes through can be played, or is refused in one line by the proof that it ends."""
    errors = played = 0
    folder = tmp_path / "job"
    folder.mkdir()
    for seed in range(FIRST, FIRST + EXAMPLES):
        chance = random.Random(seed)
        for number, content in enumerate(damaged(chance)):
            (folder / f"trace_{number}.json").write_bytes(content)
        try:
            trace = import_trace(importer_named("pytorch"), folder)
            made = tmp_path / "made"
            paths = write_imported(trace, made)
            try:
                check_complete(trace)
                loaded = load_trace(made)
                build_workload(loaded.traces, groups=loaded.groups)
                played += 1
            finally:
                for path in paths:
                    path.unlink()
                made.rmdir()
        except InputError as error:
            errors += 1
            said = str(error)
            if not (str(folder) in said or "rank" in said or "node" in said) or "\n" in said:
                pytest.fail(f"seed {seed}: {said}")
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        for path in folder.iterdir():
            path.unlink()
    assert errors > 0.1 * EXAMPLES
    assert played > 0.05 * EXAMPLES


def kinetos() -> list[dict[str, Any]]:
    return [data_parallel_rank(rank, RANKS).document() for rank in range(RANKS)]


def hosts() -> list[dict[str, Any]]:
    return [data_parallel_host(rank).document() for rank in range(RANKS)]


def both() -> list[dict[str, Any]]:
    return [*kinetos(), *hosts()]


def flat_hosts() -> list[dict[str, Any]]:
    """Uneven all-to-all and a message in the oldest schema."""
    made = []
    for rank in range(RANKS):
        host = HostDocument(pid=rank + 1, is_flat=True)
        out, into = tensor(1, 30), tensor(2, 30)
        call = host.node("c10d::alltoall_base_", [into, out, "<Object>", [15, 15], [15, 15], False, -1])
        host.node("record_param_comms", [out, 7, 123456, rank, "all_to_allv", [15, 15], [15, 15]], [into], parent=call)
        host.node("c10d::send" if rank == 0 else "c10d::recv_", [[out], "<Object>", 1 - rank, 17])
        made.append(host.document())
    return made


def gloo() -> list[dict[str, Any]]:
    """Operators of c10d with the library's records on other threads."""
    made = []
    for rank in range(RANKS):
        trace = KinetoDocument(rank=rank, world_size=RANKS, pid=50 + rank)
        dims = {"Input_Dims": [[6], [6], [], [], []], "Input_type": ["float", "float", "", "ScalarList", "ScalarList"]}
        splits = ["[2, 4]", "[2, 4]"] if rank == 0 else ["[4, 2]", "[4, 2]"]
        trace.operator("c10d::alltoall_base_", 10, 5, **dims, Concrete_Inputs=["", "", "", *splits])
        trace.note("gloo:all_to_all", 12, 40, tid=300, Input_Dims=[[6]], Input_type=["float"])
        listed = {"Input_Dims": [[[64]], [], []], "Input_type": ["TensorList", "", "Scalar"]}
        trace.note("pg=default_pg", 59, 9)
        trace.operator("c10d::broadcast_", 60, 5, **listed, Concrete_Inputs=["", "", "1"])
        trace.note("gloo:broadcast", 62, 40, tid=300, Input_Dims=[[64]], Input_type=["c10::BFloat16"])
        trace.operator("aten::add", 110, 10)
        made.append(trace.document())
    return made


@cache
def whole(make: Callable[[], list[dict[str, Any]]]) -> tuple[list[dict[str, Any]], list[bytes]]:
    documents = make()
    return documents, [json.dumps(one).encode() for one in documents]


def damaged(chance: random.Random) -> list[bytes]:
    """The documents of a job, of which at least one is damaged."""
    documents, contents = whole(chance.choice([kinetos, hosts, both, flat_hosts, gloo]))
    found = list(contents)
    for number in chance.sample(range(len(found)), chance.choice([1, 1, 1, 2])):
        found[number] = _damaged(documents[number], contents[number], chance)
    if chance.random() < 0.02:
        found.pop(chance.randrange(len(found)))
    return found


def _damaged(document: dict[str, Any], content: bytes, chance: random.Random) -> bytes:
    how = chance.random()
    if how < 0.75:
        return _with_other_values(document, chance)
    if how < 0.85:
        return content[: chance.randrange(len(content))]
    if how < 0.95:
        data = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        return bytes(data)
    start, end = sorted(chance.sample(range(len(content)), 2))
    return chance.choice([content[:start] + content[end:], content + content[start:], content[:end] + content[start:]])


def _with_other_values(document: dict[str, Any], chance: random.Random) -> bytes:
    changed = copy.deepcopy(document)
    records = changed.get("traceEvents") or changed["nodes"] if chance.random() < 0.7 else [changed]
    for _ in range(chance.randint(1, 3)):
        if len(records) > 1 and chance.random() < 0.1:
            del records[chance.randrange(len(records))]
            continue
        container, key = chance.choice(list(_places(chance.choice(records))) or list(_places(changed)))
        if isinstance(container, dict) and chance.random() < 0.2:
            container.pop(key, None)
        else:
            container[key] = copy.deepcopy(chance.choice(JUNK))
    return json.dumps(changed).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document: its container and key."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in list(entries):
        yield value, key
        yield from _places(one)
