"""The verdicts of a probe as a JSON document."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from emulator.annexes.bench_kit.probe.verdict import FrameOutcome, FrameVerdict


def probe_to_json(verdicts: Sequence[FrameVerdict]) -> dict[str, Any]:
    """Counts per outcome, and every verdict."""
    counts = Counter(one.outcome for one in verdicts)
    return {
        "counts": {outcome.value: counts[outcome] for outcome in FrameOutcome},
        "probes": [dataclasses.asdict(one) for one in verdicts],
    }
