from __future__ import annotations

from emulator.statistics.class_summary import ClassSummary
from emulator.views.ideal_text import explain_ideal


def row(percent: float | None, cct_ns: float, size_bytes: int = 1 << 20) -> ClassSummary:
    return ClassSummary(
        "all_reduce", 8, size_bytes, "ring", 1, 9, None, None, percent, cct_ns, None, None, None, None, None
    )


def test_more_than_the_ideal_is_explained_where_it_shows_as_more_than_100() -> None:
    (text,) = explain_ideal([row(101.0, 1e6), row(100.2, 1e6), row(97.0, 1e6)])
    assert text.startswith("1 class is above 100 % of ideal: a port passed more than its rate")


def test_small_messages_far_from_their_ideal_are_explained_by_latency() -> None:
    (text,) = explain_ideal([row(0.006, 700_000, 4), row(5.0, 500_000, 4096), row(4.0, 9e8)])
    assert text.startswith("2 classes of up to 4 KiB cannot come near 100 % of ideal")


def test_ordinary_shares_need_no_explanation() -> None:
    assert not [*explain_ideal([row(92.0, 1e6), row(4.0, 9e8), row(None, 1e6)])]
