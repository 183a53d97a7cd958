"""Errors of trace files that are cut short or corrupt: one per way in which the bytes can end or be wrong.

A short file is never taken for a short trace. Offsets count bytes of the uncompressed file.
"""

from __future__ import annotations

from pathlib import Path

from emulator.errors import TraceError


def empty_file(path: Path) -> TraceError:
    """The file has no bytes."""
    return TraceError("the file is empty", path=path, offset=0)


def ends_inside_record(path: Path, offset: int) -> TraceError:
    """The file ends before the end of the record at `offset`."""
    problem = "the file ends inside the record that starts here: it is cut off or corrupt"
    return TraceError(problem, path=path, offset=offset)


def ends_inside_compressed_data(path: Path, offset: int) -> TraceError:
    """The compressed data ends early; `offset` uncompressed bytes came out of it."""
    return TraceError("the compressed data is cut off", path=path, offset=offset)


def empty_record(path: Path, offset: int) -> TraceError:
    """A record of no bytes where a node must be: a run of zeros, as a lost block leaves it."""
    problem = "an empty record instead of a node: the file is cut off or corrupt"
    return TraceError(problem, path=path, offset=offset)


def impossible_length(path: Path, offset: int, *, size: int | None, limit: int) -> TraceError:
    """The length of the record at `offset` is above `limit` bytes, or not a number (`size` None)."""
    problem = "the length of a record is not a number: the file is corrupt"
    if size is not None:
        problem = f"a record of {size:,} bytes, more than the {limit:,} allowed: the file is corrupt"
    return TraceError(problem, path=path, offset=offset)
