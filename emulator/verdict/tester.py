"""Whether the tester itself set the times of a run: steal, late posts, agents that waited for a core, kernel drops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from emulator.statistics.summary import RunSummary
from emulator.units import format_duration

MOST_STEAL = 0.02
"""Share of the cores' time that went to other virtual machines, above which times describe the host."""
MOST_CORE_WAIT = 0.2
"""Share of the time that an agent was ready to run and had no core."""
MOST_LATENESS_OF_CCT = 0.1
"""Median lateness of posts, relative to the shortest median cct."""


@dataclass(frozen=True, slots=True)
class TesterState:
    """What is known about the tester.

    Attributes:
        is_calibrated: a calibration of this host applies to the run.
        drops: that receiving hosts dropped datagrams, which counts of loss and repair then contain; "" if they did not.
        problems: why its times describe the tester rather than the device; empty: nothing was found.
    """

    is_calibrated: bool
    problems: tuple[str, ...]
    drops: str = ""

    @property
    def problem(self) -> str:
        """The first problem; "" if there is none."""
        return self.problems[0] if self.problems else ""


def judge_tester(summary: RunSummary) -> TesterState:
    """Judge the tester by what its agents reported."""
    is_calibrated = any(one.tester_percent is not None for one in summary.classes)
    problems, drops = tuple(_problems(summary)), ""
    if summary.totals.receiver_drops:
        drops = (
            f"the receiving hosts dropped datagrams {summary.totals.receiver_drops:,} times: their buffers were full"
        )
    return TesterState(is_calibrated, (*problems, *filter(None, [drops])), drops)


def _problems(summary: RunSummary) -> Iterator[str]:
    tester = summary.tester
    if tester.core_wait_fraction is not None and tester.core_wait_fraction > MOST_CORE_WAIT:
        yield f"an agent waited for a core {100 * tester.core_wait_fraction:.0f} % of the time"
    if tester.steal_fraction is not None and tester.steal_fraction > MOST_STEAL:
        yield f"the hypervisor took {100 * tester.steal_fraction:.1f} % of the cores' time (steal)"
    shortest = min((one.cct_p50_ns for one in summary.classes if one.cct_p50_ns), default=None)
    late = tester.post_lateness_median_ns
    if late is not None and shortest is not None and late > MOST_LATENESS_OF_CCT * shortest:
        yield f"posts were {format_duration(late)} late at the median, the shortest cct is {format_duration(shortest)}"
