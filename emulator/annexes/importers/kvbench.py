"""Traffic patterns of NIXL's KVBench: matrices whose cell [i, j] is what rank i sends to rank j, and a YAML file.

A pattern begins when all its senders are there, waits if the file says so, and sends all cells at once; a rank that
sends begins its next pattern when its cells have arrived. Receivers take part in nothing else: writes are one-sided.

Source: ai-dynamo/nixl at 8770b65, benchmark/kvbench: README.md and main.py (files), test/traffic_pattern.py and
test/sequential_custom_traffic_perftest.py (order), test/inference_workload_matgen.py (units, sleep_before_launch_sec);
docs/storage-simulation.md at 415dc2a (storage, patterns without a matrix).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from emulator.annexes.importers.model import (
    Fate,
    ImportedRank,
    ImportedTrace,
    Importer,
    Losses,
    NodeList,
    NodeResource,
    RecordedOperation,
)
from emulator.annexes.importers.recorded_calls import LONGEST_TRACE_NS
from emulator.annexes.importers.text_files import (
    HEAD_BYTES,
    file_head,
    files_of_format,
    of_line,
    read_lines,
    read_whole,
)
from emulator.errors import TopologyError, TraceError
from emulator.schema import SchemaProblem, decode
from emulator.topology.document import MAX_YAML_BYTES, parse_document
from emulator.trace.meaning.meaning import MAX_SIZE_BYTES
from emulator.trace.meaning.model import CommKind

NAME = "kvbench"
LARGEST_MATRIX = 4096
"""Rows of a matrix."""
MAX_CELLS = 10_000_000
"""Transfers of a job."""
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_CELL = re.compile(rb"^(\d{1,19}(?:\.\d{1,19})?(?:e[+-]?\d{1,2})?)([bkmgBKMG])?$")
_YAML = re.compile(rb"^[ \t]*(-[ \t]+)?([\"']?)(matrix(_file)?|storage)\2\s*:", re.MULTILINE)
_PATTERNS = re.compile(rb"^(\"?traffic_patterns?\"?)\s*:", re.MULTILINE)


class _PatternFile(msgspec.Struct):
    """A pattern as the YAML file has it."""

    matrix_file: str | None = None
    matrix: str | None = None
    shards: int = 1
    xfer_op: str = "WRITE"
    sleep_before_launch_sec: float | None = None
    sleep_after_launch_sec: float | None = None
    decode_compute_sec: float | None = None
    storage: Any = None


_KNOWN = {*_PatternFile.__struct_fields__, "metadata", "mem_type", "dtype", "id"}
"""Of a pattern; the last four say nothing about traffic."""


class _Config(msgspec.Struct):
    traffic_patterns: list[_PatternFile] | None = None
    traffic_pattern: _PatternFile | None = None


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A pattern: cells as (sender, receiver) → bytes, only those that are not 0."""

    number: int
    where: str
    size: int
    cells: dict[tuple[int, int], int]
    before_ns: int = 0
    after_ns: int = 0

    @property
    def senders(self) -> list[int]:
        return sorted({sender for sender, _ in self.cells})

    @property
    def name(self) -> str:
        """The sends of a pattern have the same name, by which the export finds them."""
        return f"pattern {self.number}"


def is_kvbench(head: bytes) -> bool:
    """Whether a file that begins so is a matrix, or a YAML file that names some."""
    return bool(_PATTERNS.search(head) and _YAML.search(head)) or _is_matrix(head)


def _is_matrix(head: bytes) -> bool:
    """Whether these are rows of a square matrix; of one that is cut off, its whole rows."""
    rows = [line.split() for line in head.split(b"\n") if line.strip()]
    columns = len(rows[0]) if rows else 0
    if len(head) >= HEAD_BYTES:
        rows = rows[:-1]
    elif len(rows) != columns:
        return False
    return columns > 1 and all(len(row) == columns and all(map(_CELL.match, row)) for row in rows)


def read_kvbench(
    path: Path, *, ranks: int | None = None, on_rank: Callable[[int, int], None] | None = None
) -> ImportedTrace:
    """Read a YAML file with its matrices, a folder with one, or a single matrix.

    Args:
        ranks: not needed: a matrix has a row for every rank.

    Raises:
        TraceError: there is none, a matrix is missing or damaged, or matrices differ in size.
    """
    losses = Losses()
    patterns = _patterns(_main_file(path), losses)
    size = patterns[0].size
    other = next((one for one in patterns if one.size != size), None)
    if other is not None:
        raise TraceError(f"is of {other.size} ranks, the first matrix is of {size}", path=other.where)
    if sum(len(one.cells) for one in patterns) > MAX_CELLS:
        raise TraceError(f"has more than {MAX_CELLS:,} transfers: play fewer patterns", path=path)
    builders = [_Builder() for _ in range(size)]
    for pattern in patterns:
        _add(pattern, builders)
    if not any(builder.nodes for builder in builders):
        raise TraceError("sends nothing: all cells are 0", path=path)

    def made(rank: int) -> ImportedRank:
        return ImportedRank(rank, [str(path)], "matrices", size, {}, builders[rank].nodes, builders[rank].losses)

    return ImportedTrace.of(path, NAME, range(size), made, world_size=size, losses=losses, on_rank=on_rank)


def _main_file(path: Path) -> Path:
    if path.is_file():
        return path
    files = files_of_format(path, is_kvbench)
    configs = [file for file in files if _PATTERNS.search(file_head(file))]
    chosen = configs or files
    if len(chosen) != 1:
        what = (
            f"{len(configs)} YAML files with traffic patterns" if configs else f"{len(files)} matrices and no YAML file"
        )
        raise TraceError(f"holds {what}: name one file" if files else "holds no traffic pattern of KVBench", path=path)
    return chosen[0]


def _patterns(file: Path, losses: Losses) -> list[_Pattern]:
    if not _PATTERNS.search(file_head(file)):
        return [_Pattern(0, str(file), *_matrix(file, losses))]
    config, keys = _config(file)
    found = config.traffic_patterns or ([config.traffic_pattern] if config.traffic_pattern is not None else [])
    if not found:
        raise TraceError("has no traffic pattern", path=file)
    patterns, matrices = [], {}
    for number, one in enumerate(found):
        where = f"{file}, pattern {number}"
        for key in sorted(map(str, keys[number] - _KNOWN)):
            losses.count(Fate.DROPPED, f"{key[:40]!r} of a pattern, which is not known", where)
        if one.storage is not None:
            losses.count(Fate.DROPPED, "what the ranks of a pattern read from storage and write to it", where)
        name = one.matrix_file or one.matrix
        if name is None:
            losses.count(Fate.DROPPED, "patterns without a matrix: nothing is sent", where)
            continue
        matrix = _beside(file, name, where)
        if matrix not in matrices:
            matrices[matrix] = _matrix(matrix, losses)
        if one.shards != 1:
            losses.count(Fate.MERGED, "shards of a buffer: one message each cell", where)
        if one.xfer_op.upper() not in ("WRITE", "READ"):
            raise TraceError(f"xfer_op {one.xfer_op[:40]!r} is neither WRITE nor READ", path=where)
        before = _sleep_ns(one.sleep_before_launch_sec, where)
        after = _sleep_ns(one.sleep_after_launch_sec, where) + _sleep_ns(one.decode_compute_sec, where)
        patterns.append(_Pattern(number, str(matrix), *matrices[matrix], before, after))
    if not patterns:
        raise TraceError("has no pattern with a matrix: nothing is sent between ranks", path=file)
    return patterns


def _config(file: Path) -> tuple[_Config, list[set[Any]]]:
    """The file, and the keys of its patterns."""
    data = read_whole(file)
    if len(data) > MAX_YAML_BYTES:
        raise TraceError(f"has more than {MAX_YAML_BYTES >> 20} MiB", path=file)
    try:
        document = parse_document(data, file)
        config = decode(document.value, _Config)
    except TopologyError as error:
        raise TraceError(error.problem, path=of_line(file, error.line or 1)) from error
    except SchemaProblem as error:
        problem = document.error(error.problem, error.path)
        raise TraceError(f"{problem.key}: {problem.problem}", path=of_line(file, problem.line or 1)) from error
    listed = document.value.get("traffic_patterns") or [document.value.get("traffic_pattern")]
    return config, [set(one or ()) for one in listed]


def _beside(file: Path, name: str, where: str) -> Path:
    """The matrix in the folder of the YAML file: only its name counts, paths are those of another machine."""
    last = name.replace("\\", "/").rpartition("/")[2]
    path = file.parent / last
    try:
        is_there = last not in ("", ".", "..") and "\0" not in last and path.is_file()
    except OSError:  # a name that is too long
        is_there = False
    if not is_there:
        raise TraceError(f"the matrix {last[:80]!r} is not next to the file", path=where)
    return path


def _sleep_ns(seconds: float | None, where: str) -> int:
    if seconds is None:
        return 0
    if not math.isfinite(seconds) or not 0 <= seconds * 1e9 <= LONGEST_TRACE_NS:
        raise TraceError(f"sleeps {seconds} s: expected 0 to one year", path=where)
    return round(seconds * 1e9)


def _matrix(path: Path, losses: Losses) -> tuple[int, dict[tuple[int, int], int]]:
    """Rows, and the cells that are not 0."""
    cells: dict[tuple[int, int], int] = {}
    rows = columns = 0
    for number, line, _ in read_lines(path):
        words = line.split()
        if not words:
            continue
        columns = columns or len(words)
        if len(words) != columns or columns > LARGEST_MATRIX:
            problem = f"has {len(words)} cells; the first row has {columns}, the most is {LARGEST_MATRIX}"
            raise TraceError(problem, path=of_line(path, number))
        for column, word in enumerate(words):
            size = _cell(word, of_line(path, number))
            if size and column == rows:
                losses.count(Fate.DROPPED, "what a rank sends to itself", of_line(path, number))
            elif size:
                cells[rows, column] = size
        rows += 1
    if rows != columns or rows < 2:
        raise TraceError(
            f"has {rows} rows of {columns} cells: expected a square matrix of two or more ranks", path=path
        )
    return rows, cells


def _cell(word: bytes, where: str) -> int:
    found = _CELL.match(word)
    size = -1.0 if found is None else float(found[1]) * _UNITS[(found[2] or b"b").decode().lower()]
    is_fraction = found is not None and not found[2] and size % 1
    if not 0 <= size <= MAX_SIZE_BYTES or is_fraction:
        said = word[:40].decode("utf-8", "replace")
        raise TraceError(f"{said!r} is not a size: bytes, or a number with K, M or G", path=where)
    return int(size)


class _Builder(NodeList):
    """Builds the nodes of a rank; `last`: what the next pattern waits for."""

    last: tuple[int, ...] = ()

    def sleep(self, pattern: _Pattern, duration_ns: int) -> None:
        if duration_ns:
            self.losses.count(Fate.MAPPED, "sleeps", pattern.where)
            self.last = (self.add("sleep", NodeResource.CPU, self.last, duration_ns),)


def _add(pattern: _Pattern, builders: Sequence[_Builder]) -> None:
    senders = pattern.senders
    for rank in senders:
        builder = builders[rank]
        if len(senders) > 1:
            whole = len(senders) == pattern.size
            barrier = RecordedOperation(
                where=pattern.where,
                name="barrier of senders",
                kind=CommKind.BARRIER,
                size_bytes=0,
                group="senders",
                ranks=() if whole else tuple(senders),
            )
            builder.losses.count(Fate.MAPPED, CommKind.BARRIER.label, pattern.where)
            builder.last = (builder.issue(barrier, builder.last),)
        builder.sleep(pattern, pattern.before_ns)
    sent: dict[int, list[int]] = {rank: [] for rank in senders}
    for (sender, receiver), size in pattern.cells.items():
        sent[sender].append(_message(pattern, builders[sender], CommKind.SEND, receiver, size, builders[sender].last))
        _message(pattern, builders[receiver], CommKind.RECV, sender, size, ())
    for rank in senders:
        builders[rank].last = tuple(sent[rank])
        builders[rank].sleep(pattern, pattern.after_ns)


def _message(pattern: _Pattern, builder: _Builder, kind: CommKind, peer: int, size: int, deps: tuple[int, ...]) -> int:
    operation = RecordedOperation(
        where=pattern.where, name=pattern.name, kind=kind, size_bytes=size, ranks=(), peer=peer, tag=pattern.number
    )
    builder.losses.count(Fate.MAPPED, kind.label, pattern.where)
    return builder.issue(operation, deps)


KVBENCH = Importer(NAME, "traffic matrices of NIXL's KVBench", is_kvbench, read_kvbench)
