"""A switch without a fault: never FAIL, and PASS where the size is large enough."""

from __future__ import annotations

from collections.abc import Iterator

from lab.benchmarks.verdicts.trials import Case


def cases(loops: int = 0) -> Iterator[Case]:
    """Rules at 50, 70 and 90 % of ideal, 2 and 4 ranks; a size alone and in a sweep; `loops` busy loops beside."""
    never, always = {"FAIL": 0.0}, {"PASS": 1.0}
    for ranks in (2, 4):
        yield Case(f"{ranks} ranks, sweep", ranks, "4K,64K,1M,16M", (50, 70, 90), never, loops=loops, iterations=6)
        yield Case(f"{ranks} ranks, 64K alone", ranks, "64K", (50, 70, 90), never, loops=loops)
    yield Case("2 ranks, 16M", 2, "16M", (90,), always, loops=loops)
