"""A class beside a larger one in a sweep takes as long as without it.

All-reduces of 256 KiB and 4 MiB among 4 ranks, with and without 16 MiB.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median

from lab.benchmarks.verdicts.trials import IN_LAB, charkha, raised

SWEEPS = ("256K,4M", "256K,4M,16M")
SMALL, MIDDLE = 256 << 10, 4 << 20
MOST_DIFFERENCE, MOST_SPREAD = 0.01, 1.5


def play(count: int) -> int:
    """Play both sweeps `count` times, in turn, and print a row for each; 1 if they differ."""
    medians: dict[str, list[float]] = {one: [] for one in SWEEPS}
    spreads: dict[str, list[float]] = {one: [] for one in SWEEPS}
    with raised(), tempfile.TemporaryDirectory(prefix="charkha-neighbours-") as scratch:
        for number in range(count):
            for sizes in SWEEPS:
                rows = _rows(sizes, Path(scratch) / f"{number}-{sizes}")
                medians[sizes].append(rows[MIDDLE]["p50_ns"])
                spreads[sizes].append(rows[SMALL]["p95_ns"] / rows[SMALL]["p50_ns"])
    for sizes in SWEEPS:
        times = " ".join(f"{one / 1e6:.2f}" for one in medians[sizes])
        print(f"{sizes:12}  4 MiB p50 {times} ms  256 KiB p95/p50 {' '.join(f'{one:.2f}' for one in spreads[sizes])}")
    alone, beside = (median(medians[one]) for one in SWEEPS)
    print(f"4 MiB differs by {beside / alone - 1:+.2%}")
    return int(abs(beside / alone - 1) > MOST_DIFFERENCE or max(map(median, spreads.values())) > MOST_SPREAD)


def _rows(sizes: str, out: Path) -> dict[int, dict[str, float]]:
    what = ("bench", "all_reduce", "-n", 4, "-b", sizes, "--iterations", 20, *IN_LAB)
    found = json.loads(charkha(*what, "--out", out, "--no-report", "--json"))
    return {row["size_bytes"]: row for row in found["rows"]}
