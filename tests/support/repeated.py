"""Folders of repeated runs whose times are correlated as real ones are: by run, by iteration, by drift within a run."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from emulator.results.run_folder.manifest import Trials
from emulator.results.run_folder.reader import Run
from tests.support.runs import Row, collective, ranks, write_run

SIZES = (1_000, 64_000, 1_000_000)
APART_NS = 1 << 40
ITERATIONS = 12
BEGIN = datetime(2026, 1, 2, tzinfo=UTC)


def write_runs(
    folder: Path,
    *,
    runs: int,
    seed: int,
    slower: float = 1.0,
    spread: float = 0.003,
    turn: int = 0,
    algorithm: str = "ring",
    **facts: Any,
) -> list[Run]:
    """Runs 01, 02 … below a folder: three all-reduces an iteration.

    Args:
        folder: of the group.
        runs: how many.
        seed: of what is random.
        slower: factor on all times.
        spread: coefficient of variation between runs.
        turn: minute within the ten minutes of a round, so that groups can be made in turns.
        algorithm: of the all-reduces.
        facts: of the manifests.
    """
    random = np.random.default_rng(seed)
    made = []
    for number in range(runs):
        own = slower * (1 + spread * random.standard_normal())
        created = (BEGIN + timedelta(minutes=10 * number + turn)).isoformat()
        iterations = list(_iterations(own, random))
        made.append(
            write_run(
                folder / f"{number + 1:02}",
                [row for rows, _ in iterations for row in _named(rows, algorithm)],
                iterations={
                    n: ranks(*[(n * APART_NS, n * APART_NS + end)] * 2) for n, (_, end) in enumerate(iterations)
                },
                created=created,
                run_id=f"{folder.name}-{number}-{seed}",
                trials=Trials(attempted=ITERATIONS, included=ITERATIONS),
                **facts,
            )
        )
    return made


def _named(rows: list[Row], algorithm: str) -> list[Row]:
    return [row | {"algorithm": algorithm} for row in rows]


def _iterations(own: float, random: np.random.Generator) -> Iterator[tuple[list[Row], int]]:
    """(rows, length in ns): noise of an iteration carries over to the next."""
    noise = 0.0
    for iteration in range(ITERATIONS):
        noise = 0.7 * noise + 0.004 * random.standard_normal()
        rows: list[Row] = []
        end = 0
        for instance, size in enumerate(SIZES):
            cct = round((50_000 + 8 * size) * own * (1 + noise + 0.004 * random.standard_normal()))
            rows += collective(
                [end, end], [end + cct, end + cct], iteration=iteration, instance=instance, size_bytes=size
            )
            end += cct
        yield rows, end
