"""A switch that holds every frame for 2 ms: FAIL at 256 KiB, where the tester's own time is well below that."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from emulator.annexes.bench_kit.delay_line import delay_line
from lab.benchmarks.verdicts.trials import Case

SWITCH, PORTS = "charkha-two-hosts-switch-sw0", ("p0", "p1")
HELD_MS = 2


def cases() -> Iterator[Case]:
    """The forwarder alone is no perfect switch: the good one is in `clean`.

    It takes a core now and then: with 10 iterations, what agents waited left every second trial open.
    """
    device = partial(delay_line, SWITCH, PORTS, (HELD_MS * 1000, HELD_MS * 1000), checksums=False)
    yield Case(f"{HELD_MS} ms of delay", 2, "256K", (50,), {"FAIL": 0.9}, device=device, iterations=40)
