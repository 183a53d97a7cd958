"""Switches with a fault: FAIL on a quiet machine, and never PASS."""

from __future__ import annotations

from collections.abc import Iterator

from lab.benchmarks.verdicts.trials import Case

_SLOW = "name: port-85\nrules:\n  - name: slower\n    shape: {rate: 85%}\n"
_RESENDS = "charkha_rules: 1\nrules:\n  - {metric: retransmissions, at_most: 0}\n"
"""Its losses explain them: the switch counts frames in and out, so none is unexplained."""


def cases() -> Iterator[Case]:
    """Each quiet and beside two busy loops."""
    found, no_pass = {"FAIL": 1.0}, {"PASS": 0.0}
    for loops, wanted in ((0, found), (2, no_pass)):
        for name, profile in (("ports at 85 %", _SLOW), ("lossy-link", "lossy-link"), ("policer", "policer")):
            yield Case(name, 2, "16M", (90,), wanted, loops=loops, profile=profile, iterations=6)
        yield Case("fw-b, no retransmissions", 2, "1M", (), found, loops=loops, profile="fw-b", rules=_RESENDS)
