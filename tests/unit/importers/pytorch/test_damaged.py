"""Damaged traces: an error that names the file, or a trace that is whole; never anything else."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import InputError
from emulator.importers.registry import IMPORTERS, import_trace
from emulator.importers.writing import write_imported
from tests.support.pytorch_traces import HostDocument, data_parallel_host, data_parallel_rank, tensor

EXAMPLES = max(300, int(os.environ.get("CHARKHA_FUZZ_EXAMPLES", "300")) // 5)
JUNK = [
    None,
    True,
    False,
    -1,
    0,
    1,
    2,
    1 << 40,
    1 << 70,
    1.5,
    1e308,
    "",
    "x",
    "[0, 1]",
    "[0, ...]",
    [],
    [[]],
    {},
    {"a": 1},
]
RANKS = 2


def test_damage_is_an_error_that_names_the_file_or_leaves_a_whole_trace(tmp_path: Path) -> None:
    errors = 0
    for seed in range(EXAMPLES):
        chance = random.Random(seed)
        folder = tmp_path / "job"
        folder.mkdir(exist_ok=True)
        for number, document in enumerate(_documents(chance)):
            (folder / f"trace_{number}.json").write_bytes(_damaged(document, chance))
        try:
            trace = import_trace(IMPORTERS["pytorch"], folder)
            assert all(dep < one.node_id for rank in trace.ranks for one in rank.nodes for dep in one.deps)
            made = tmp_path / f"made-{seed}"
            for path in write_imported(trace, made):
                path.unlink()
            made.rmdir()
        except InputError as error:
            errors += 1
            said = str(error)
            is_named = str(folder) in said or "rank" in said
            if not is_named or "\n" in said:
                pytest.fail(f"seed {seed}: {said}")
        for path in folder.iterdir():
            path.unlink()
    assert 0.1 * EXAMPLES < errors < EXAMPLES


def _documents(chance: random.Random) -> list[dict[str, Any]]:
    kinetos = [data_parallel_rank(rank, RANKS).document() for rank in range(RANKS)]
    hosts = [data_parallel_host(rank).document() for rank in range(RANKS)]
    return chance.choice([kinetos, hosts, [*kinetos, *hosts], [_uneven(rank) for rank in range(RANKS)]])


def _uneven(rank: int) -> dict[str, Any]:
    host = HostDocument(pid=rank, is_flat=True)
    out, into = tensor(1, 30), tensor(2, 30)
    call = host.node("c10d::alltoall_base_", [into, out, "<Object>", [15, 15], [15, 15], False, -1])
    host.node("record_param_comms", [out, 7, 123456, rank, "all_to_allv", [15, 15], [15, 15]], [into], parent=call)
    host.node("c10d::send" if rank == 0 else "c10d::recv_", [[out], "<Object>", 1 - rank, 17])
    return host.document()


def _damaged(document: dict[str, Any], chance: random.Random) -> bytes:
    how = chance.random()
    if how < 0.3:
        return json.dumps(document).encode()
    if how < 0.8:
        changed = copy.deepcopy(document)
        for _ in range(chance.randint(1, 3)):
            container, key = chance.choice(list(_places(changed)))
            if chance.random() < 0.2 and isinstance(container, dict):
                container.pop(key, None)
            else:
                container[key] = copy.deepcopy(chance.choice(JUNK))
        return json.dumps(changed).encode()
    data = bytearray(json.dumps(document).encode())
    if how < 0.9:
        return bytes(data[: chance.randrange(len(data))])
    for _ in range(chance.randint(1, 4)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document: its container and key."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in list(entries):
        yield value, key
        yield from _places(one)
