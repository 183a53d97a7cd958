"""Which files make up a trace: a folder, a prefix, or one file → one path per rank."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from emulator.errors import TraceError, format_ranks
from emulator.shipped import TRACES
from emulator.suggestions import did_you_mean

_TRACE_NAME = re.compile(r"(?:(?P<prefix>.*)\.)?(?P<rank>[0-9]{1,9})\.(?P<form>et|json)(?:\.gz|\.zst)?", re.DOTALL)
_PARQUET_HEAD = b"PAR1"
_ARCHIVE_NAME = re.compile(r"\.(tar(\.\w+)?|tgz|zip)$")


def is_master(path: Path) -> bool:
    """Whether a path is a Parquet file, and so can only be a master file."""
    if not path.is_file():  # a pipe that nobody writes would be waited for
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_PARQUET_HEAD)) == _PARQUET_HEAD
    except OSError:
        return False


def is_json_name(path: Path) -> bool:
    """Whether a file's name says that it is JSON, compressed or not."""
    return re.search(r"\.json(\.gz|\.zst)?$", path.name) is not None


@dataclass(frozen=True, slots=True)
class TraceSet:
    """The files of one trace.

    Attributes:
        prefix: what the files' names begin with, without folder and rank.
        paths: one file per rank; the index is the rank. If only one rank was recorded, the others are not there.
        group_file: where process groups may be described: `<prefix>.json`, comm_group.json or workload.json beside the
            files, the first that is there; not looked into.
    """

    prefix: str
    paths: Sequence[Path]
    group_file: Path | None

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self.paths[0].parent


class _Candidate(NamedTuple):
    path: Path
    prefix: str
    rank: int
    is_json: bool


def find_trace(path: Path, *, ranks: int | None = None, only: int | None = None) -> TraceSet:
    """The files that a path on the command line means.

    Args:
        path: a folder with one trace, a prefix (`folder/name` for `folder/name.<rank>.et`), or one file.
        ranks: how many ranks there must be; a single file is a trace of its own only when this is 1.
        only: the one rank of them that is needed; the files of the others may be missing.

    Raises:
        TraceError: no such trace, several in the folder, ranks missing or given twice, or not `ranks` many.
    """
    try:
        if only is not None:
            return _with_only(path, ranks, only)
        if path.is_dir():
            return _from_folder(path, ranks)
        if path.exists() and not path.is_file():
            raise TraceError("is neither a regular file nor a folder", path=path)
        if path.exists() or path.is_symlink():
            return _from_file(path, ranks)
        return _from_prefix(path, ranks)
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}", path=path) from error


def lone_rank(path: Path, *, ranks: int | None) -> int | None:
    """The rank of a file that is all there is of a job of several ranks; None: it is not so."""
    if ranks is None or ranks == 1:
        return None
    found = {candidate.rank for candidate in _named(path)}
    return next(iter(found)) if len(found) == 1 else None


def _with_only(path: Path, ranks: int | None, only: int) -> TraceSet:
    by_rank = {candidate.rank: candidate for candidate in _named(path)}
    if only not in by_rank:
        have = f"; there are {format_ranks(list(by_rank)[:1000])}" if by_rank else ""
        raise TraceError(f"has no rank {only}{have}", path=path)
    world, needed = max(by_rank) + 1, f"--ranks N says how many ranks the job has, at least {max(by_rank) + 1}"
    if (ranks is None and world == 1) or (ranks is not None and ranks < world):
        raise TraceError(f"rank {only} is one of a job: {needed}", path=path)
    chosen = by_rank[only]
    names = (
        by_rank[rank].path.name if rank in by_rank else f"{chosen.prefix}.{rank}.et" for rank in range(ranks or world)
    )
    folder = chosen.path.parent
    return TraceSet(chosen.prefix, tuple(folder / name for name in names), _group_file(folder, chosen.prefix))


def _named(path: Path) -> list[_Candidate]:
    """The files that a path means, whichever ranks they are of."""
    if path.is_dir():
        return _without_json_beside_et(_candidates(path))
    found = _candidates(path.parent) if path.parent.is_dir() else []
    prefix = path.name.removesuffix(".")
    own = [candidate for candidate in found if candidate.path.name == path.name]
    return own or _without_json_beside_et([candidate for candidate in found if candidate.prefix == prefix])


def has_et_files(path: Path) -> bool:
    """Whether it is a folder with .et files, compressed or not: a trace of Chakra, whatever else is in it."""
    return path.is_dir() and any(".et" in entry.suffixes[-2:] for entry in path.iterdir())


def _from_folder(folder: Path, ranks: int | None) -> TraceSet:
    candidates = _without_json_beside_et(_candidates(folder))
    prefixes = sorted({candidate.prefix for candidate in candidates})
    if not prefixes:
        raise TraceError("contains no trace: no file is named <prefix>.<rank>.et or <prefix>.<rank>.json", path=folder)
    if len(prefixes) > 1:
        shown = ", ".join(prefixes[:6]) + (", …" if len(prefixes) > 6 else "")
        problem = f"holds {len(prefixes)} traces ({shown}): name one, as {folder / prefixes[0]}"
        raise TraceError(problem, path=folder)
    return _trace_set(folder, prefixes[0], candidates, ranks)


def _from_prefix(path: Path, ranks: int | None) -> TraceSet:
    prefix, folder = path.name.removesuffix("."), path.parent
    found = _candidates(folder) if folder.is_dir() else []
    candidates = _without_json_beside_et([candidate for candidate in found if candidate.prefix == prefix])
    if not candidates:
        advice = did_you_mean(path.name, TRACES.paths) if folder == Path() else ""
        problem = f"no such file or folder, and no trace of that prefix: {prefix}.0.et is not there{advice}"
        raise TraceError(problem, path=path)
    return _trace_set(folder, prefix, candidates, ranks)


def _from_file(path: Path, ranks: int | None) -> TraceSet:
    if _ARCHIVE_NAME.search(path.name):
        raise TraceError("is an archive, not a trace: unpack it first", path=path)
    match = _TRACE_NAME.fullmatch(path.name)
    prefix = (match["prefix"] or "") if match else path.name
    if ranks != 1:
        raise TraceError(_one_file_problem(path, match and path.parent / prefix), path=path)
    return TraceSet(prefix, (path,), _group_file(path.parent, prefix))


def _one_file_problem(path: Path, whole: Path | None) -> str:
    if path.suffix in (".yaml", ".yml"):
        return "is YAML, not a trace: a run spec is given with -f, a topology with --topology"
    if path.suffix == ".jsonl":
        return "is JSON lines, not a trace: `charkha trace generate inference --trace FILE` plays requests"
    if whole is None and ".et" not in path.suffixes:
        return "is no trace in a format that Charkha reads: `charkha help importers` lists them"
    whole = whole or path.parent
    return f"is one file: name the folder or the prefix ({whole}) for all ranks, or pass --ranks 1 for it alone"


def _candidates(folder: Path) -> list[_Candidate]:
    """Files named as traces are, hidden ones aside."""
    matches = ((entry, _TRACE_NAME.fullmatch(entry.name)) for entry in folder.iterdir())
    return [
        _Candidate(entry, match["prefix"] or "", int(match["rank"]), match["form"] == "json")
        for entry, match in matches
        if match and not entry.name.startswith(".") and not entry.is_dir()
    ]


def _without_json_beside_et(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    has_et = any(not candidate.is_json for candidate in candidates)
    return [candidate for candidate in candidates if not (has_et and candidate.is_json)]


def _trace_set(folder: Path, prefix: str, candidates: Iterable[_Candidate], ranks: int | None) -> TraceSet:
    by_rank: defaultdict[int, list[Path]] = defaultdict(list)
    for candidate in candidates:
        by_rank[candidate.rank].append(candidate.path)
    where = folder / prefix
    _check_ranks(where, by_rank, ranks)
    return TraceSet(prefix, tuple(by_rank[rank][0] for rank in range(len(by_rank))), _group_file(folder, prefix))


def _check_ranks(where: Path, by_rank: Mapping[int, Sequence[Path]], ranks: int | None) -> None:
    for rank, paths in sorted(by_rank.items()):
        if len(paths) > 1:
            names = " and ".join(sorted(path.name for path in paths))
            raise TraceError(f"has {len(paths)} files: {names}; keep one", path=where, rank=rank)
    present = len(by_rank)
    expected = present if ranks is None else ranks
    highest = max(by_rank)
    missing = set(range(min(max(expected, highest + 1), present + 1000))) - set(by_rank)
    if missing:
        have = format_ranks(list(by_rank)[:1000])
        raise TraceError(f"rank {format_ranks(sorted(missing))} is missing (found: {have})", path=where)
    if present != expected:
        raise TraceError(f"has {present} ranks, --ranks asks for {expected}", path=where)
    if present == 1 and ranks is None:
        problem = "only rank 0 is there: pass --ranks 1 if that is the whole trace, else add the other ranks' files"
        raise TraceError(problem, path=where)


def _group_file(folder: Path, prefix: str) -> Path | None:
    places = (folder / name for name in (f"{prefix}.json", "comm_group.json", "workload.json"))
    return next((place for place in places if place.is_file()), None)
