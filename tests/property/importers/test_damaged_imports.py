"""Damaged files of every format: an error of one line that names the file, or a trace that is whole.

The pickles, logs, JSON lines, matrices and workloads of `tests.support.import_sources`, damaged in their values, lines
and bytes. CHARKHA_FUZZ_EXAMPLES sets how many; PyTorch's own traces have a test of their own.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.annexes.importers.registry import import_trace, importer_named
from emulator.annexes.importers.writing import write_imported
from emulator.errors import InputError
from emulator.trace.files.load import load_trace
from emulator.trace.meaning.workload import build_workload
from tests.support.import_sources import WRITERS, recorder_dump, write_sample

EXAMPLES = int(os.environ.get("CHARKHA_FUZZ_EXAMPLES", "600"))
PLAYED_EVERY = 10
JUNK: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    7,
    1 << 40,
    1 << 70,
    1.5,
    float("nan"),
    "",
    "x",
    "[0, 1]",
    [],
    [[]],
    {},
    {"a": 1},
]
WORDS = [b"", b"-1", b"0", b"4", b"99", b"1e9", b"9" * 30, b"\xff\xfe", b"ALLREDUCE", b"0x1", b"NONE", b"\x00"]
HOSTILE = [b"cos\nsystem\n(S'true'\ntR.", b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.", b"\x82\x01R"]


@pytest.mark.parametrize("sample", list(WRITERS))
def test_damage_is_an_error_that_names_the_file_or_leaves_a_whole_trace(sample: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    importer = write_sample(sample, source)
    originals = {path.name: path.read_bytes() for path in source.iterdir()}
    examples = max(60, EXAMPLES // len(WRITERS))
    errors = 0
    for seed in range(examples):
        chance = random.Random(f"{sample} {seed}")
        for name, data in originals.items():
            (source / name).write_bytes(data)
        damaged = chance.choice(sorted(originals))
        (source / damaged).write_bytes(damage(originals[damaged], chance))
        try:
            play(importer, source, tmp_path / "made", is_proven=seed % PLAYED_EVERY == 0)
        except InputError as error:
            errors += 1
            said = str(error)
            assert "\n" not in said, f"seed {seed}: {said!r}"
            assert str(source) in said or "rank" in said, f"seed {seed}: {said}"
    assert 0.1 * examples < errors <= examples


def play(importer: str, source: Path, made: Path, *, is_proven: bool) -> None:
    """Import, and check what comes out; now and then write it and prove that it can be played."""
    trace = import_trace(importer_named(importer), source)
    for rank in trace.ranks:
        assert all(dep < node.node_id for node in rank.nodes for dep in node.deps)
        assert all(node.duration_ns >= 0 and node.start_ns >= 0 for node in rank.nodes)
    if is_proven and not trace.missing:
        try:
            write_imported(trace, made)
            loaded = load_trace(made, ranks=len(trace.ranks))
            build_workload(loaded.traces, groups=loaded.groups)
        except InputError as error:
            raise InputError(f"{source}: {error}") from error  # as `charkha run` names the source
        finally:
            shutil.rmtree(made, ignore_errors=True)


def damage(data: bytes, chance: random.Random) -> bytes:
    how = chance.random()
    if how < 0.4 and data.startswith(b"\x80"):
        return pickle.dumps(changed(recorder_dump(chance.randrange(4)), chance), protocol=chance.choice([2, 4, 5]))
    if how < 0.4 and data.startswith(b"{"):
        return changed_lines(data, chance)
    if how < 0.5:
        return data[: chance.randrange(len(data))]
    if how < 0.75:
        return changed_words(data, chance)
    if how < 0.8:
        at = chance.randrange(len(data))
        return data[:at] + chance.choice(HOSTILE) + data[at:]
    flipped = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        flipped[chance.randrange(len(flipped))] = chance.randrange(256)
    return bytes(flipped)


def changed_lines(data: bytes, chance: random.Random) -> bytes:
    """A JSON document, or one of the documents in the lines, with other values."""
    lines = data.splitlines()
    at = chance.randrange(len(lines))
    lines[at] = json.dumps(changed(json.loads(lines[at]), chance)).encode()
    return b"\n".join(lines) + b"\n"


def changed_words(data: bytes, chance: random.Random) -> bytes:
    """Lines that are gone, there twice or in another order; words that are replaced."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    match chance.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[at])
        case 2:
            chance.shuffle(lines)
        case _:
            words = re.split(rb"(\s+)", lines[at])
            words[chance.randrange(len(words))] = chance.choice(WORDS)
            lines[at] = b"".join(words)
    return b"\n".join(lines)


def changed(document: Any, chance: random.Random) -> Any:
    document = copy.deepcopy(document)
    for _ in range(chance.randint(1, 3)):
        container, key = chance.choice(list(places(document)))
        if chance.random() < 0.2 and isinstance(container, dict):
            container.pop(key, None)
        else:
            container[key] = copy.deepcopy(chance.choice(JUNK))
    return document


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in list(entries):
        yield value, key
        yield from places(one)
