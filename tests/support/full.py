"""`CHARKHA_FULL=1`, as `.ci/run --full` sets it: every variant in full, and what needs a quiet machine.

Without it the long checks take seeded subsets.
"""

import os

import pytest

IS_FULL = os.environ.get("CHARKHA_FULL") == "1"
measures = pytest.mark.skipif(not IS_FULL, reason="measures: CHARKHA_FULL=1 on a quiet machine")
variant = pytest.mark.skipif(not IS_FULL, reason="another variant of what is played: CHARKHA_FULL=1")


def examples(count: int) -> int:
    """How many examples of a property are tried: a quarter of them, or all."""
    return count if IS_FULL else count // 4
