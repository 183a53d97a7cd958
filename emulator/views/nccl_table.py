"""The table of nccl-tests: 13 columns between lines that begin with `#`, for programs that parse its output.

Charkha moves bytes and sums nothing: the type is uint8, the operation none, and there is nothing to check (#wrong is
N/A, and no value is out of bounds). In-place and out-of-place are the same operation, so that the one measurement
stands in both places.

Source: nccl-tests 2.19, src/util.cu.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from emulator.results.statistics.method.nccl_conventions import busbw_factor, count_elements, root_of
from emulator.trace.meaning.model import CommKind
from emulator.units import format_size

UNKNOWN = "N/A"
_SIGNIFICANT_DIGITS = 6
_FIRST, _MEASURED = "{:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "  {:>7}  {:>6}  {:>6}  {:>6}"
_BLANK = ("",) * 5
_TITLE = f"# {_FIRST.format(*_BLANK)}           out-of-place                       in-place          "
_NAMES = "# " + _FIRST.format("size", "count", "type", "redop", "root")
_UNITS = "# " + _FIRST.format("(B)", "(elements)", "", "", "")
_HEADING = (
    _TITLE.rstrip(),
    _NAMES + 2 * _MEASURED.format("time", "algbw", "busbw", "#wrong"),
    (_UNITS + 2 * _MEASURED.format("(us)", "(GB/s)", "(GB/s)", "")).rstrip(),
)


@dataclass(frozen=True, slots=True)
class NcclRow:
    """A line of the table.

    Attributes:
        size_bytes: as nccl-tests counts it.
        algorithm: "" if there is none.
        time_us: mean time, µs.
        is_comparable: False if a bandwidth would mislead: payload arrived before a rank had posted.
    """

    kind: CommKind
    members: int
    size_bytes: int
    algorithm: str
    time_us: float
    is_comparable: bool = True

    @property
    def algbw(self) -> float | None:
        """1e9 bytes per second; None if unknown."""
        return self.size_bytes / self.time_us / 1e3 if self.is_comparable and self.time_us > 0 else None

    @property
    def busbw(self) -> float | None:
        """1e9 bytes per second, 0 for a group of one; None if unknown."""
        return None if self.algbw is None else self.algbw * (busbw_factor(self.kind, members=self.members) or 0.0)


def nccl_table(
    rows: Sequence[NcclRow], *, label: str, warmup: int, iterations: int, notes: Sequence[str] = ()
) -> Iterator[str]:
    """The lines of a table.

    Args:
        rows: of one collective and group size, at least one.
        warmup, iterations: how often each size was played before and while it was measured.
        notes: further lines of the heading.
    """
    sizes = [row.size_bytes for row in rows]
    yield f"# Collective test starting: {label}"
    yield (
        f"# nRanks {rows[0].members} minBytes {min(sizes)} maxBytes {max(sizes)}"
        f" warmup iters: {warmup} iters: {iterations} agg iters: 1 validation: 0 graph: 0"
    )
    yield from (f"# {note}" for note in notes)
    yield "# time, algbw and busbw are means over the iterations"
    yield "# bytes are moved, nothing is summed: in-place repeats out-of-place"
    yield f"# sizes: {format_size(min(sizes))} to {format_size(max(sizes))}, in powers of 1,024 (1 KB is 1,000 bytes)"
    yield f"# algorithms: {_algorithms(rows)}"
    yield "#"
    yield from _HEADING
    yield from map(_line, rows)
    yield f"# {'Out of bounds values':<20} : 0 OK"
    yield f"# {'Avg bus bandwidth':<20} : {_average([row.busbw for row in rows])}"
    yield "#"
    yield f"# Collective test concluded: {label}"


def nccl_number(value: float | None, width: int) -> str:
    """A number as nccl-tests prints it: two decimals, fewer if the width has no room for them; never an exponent.

    Below 1 it has three significant digits, whatever the width: 0.09 GB/s may be 15 % away from what was measured.
    """
    if value is None:
        return UNKNOWN
    if 0 < value < 1:
        return f"{value:.{2 - math.floor(math.log10(value))}f}"
    return next((text for digits in (2, 1) if len(text := f"{value:.{digits}f}") <= width), f"{value:.0f}")


def _line(row: NcclRow) -> str:
    count = count_elements(row.kind, size_bytes=row.size_bytes, members=row.members)
    speeds = (nccl_number(row.algbw, 6), nccl_number(row.busbw, 6))
    measured = _MEASURED.format(nccl_number(row.time_us, 7), *speeds, UNKNOWN)
    return f"{row.size_bytes:>12}  {count:>12}  {'uint8':>8}  {'none':>6}  {root_of(row.kind):>6}{2 * measured}"


def _average(values: Sequence[float | None]) -> str:
    """Six digits, as C's %g, but without its exponent."""
    known = [value for value in values if value is not None]
    mean = sum(known) / len(known) if known else None
    if mean is None:
        return UNKNOWN
    digits = _SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(mean)) if mean else 0
    text = f"{mean:.{max(0, digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _algorithms(rows: Sequence[NcclRow]) -> str:
    """`direct up to 4096 B, then ring`."""
    changes = [row for row, after in pairwise(rows) if row.algorithm != after.algorithm]
    parts = [f"{row.algorithm or 'none'} up to {row.size_bytes} B" for row in changes]
    return ", then ".join([*parts, rows[-1].algorithm or "none"])
