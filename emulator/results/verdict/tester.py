"""Whether the tester itself set the times of a run: steal, late posts, agents that waited for a core, kernel drops."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.results.statistics.metric import Reading
from emulator.results.statistics.summary import RunSummary
from emulator.units import format_duration

MOST_STEAL = 0.02
"""Share of the cores' time that went to other virtual machines, above which times describe the host."""
MOST_CORE_WAIT = 0.2
"""Share of the time that an agent was ready to run and had no core."""
MOST_LATENESS_OF_CCT = 0.1
"""Median lateness of posts, relative to the shortest median cct."""


@dataclass(frozen=True, slots=True)
class TesterState:
    """What is known about the tester. Texts are empty where nothing was found.

    Attributes:
        is_calibrated: a calibration of this host applies to the run.
        core_wait: agents waited for a core, over the whole run.
        steal: the hypervisor took too much of the cores' time.
        lateness: communications were posted late.
        drops: receiving hosts dropped datagrams, which counts of loss and repair then contain.
    """

    is_calibrated: bool
    core_wait: str = ""
    steal: str = ""
    lateness: str = ""
    drops: str = ""

    @property
    def problems(self) -> tuple[str, ...]:
        """Why times of the run describe the tester rather than the device; empty: nothing was found."""
        return tuple(filter(None, (self.core_wait, self.steal, self.lateness, self.drops)))

    def doubt(self, reading: Reading | None = None) -> str:
        """Why a time describes the tester rather than the device; "" if nothing speaks for it.

        A class is judged by the waits during its own collectives, where these are known. A late post does not lengthen
        them: they begin with the last one.

        Args:
            reading: the time; None: times of the whole run.
        """
        if reading is None or reading.core_wait_fraction is None:
            return next(iter(self.problems), "")
        return _core_wait(reading.core_wait_fraction) or self.steal or self.drops


def judge_tester(summary: RunSummary) -> TesterState:
    """Judge the tester by what its agents reported."""
    drops, tester = summary.totals.receiver_drops, summary.tester
    return TesterState(
        is_calibrated=any(one.tester_percent is not None for one in summary.classes),
        core_wait=_core_wait(tester.core_wait_fraction),
        steal=_steal(tester.steal_fraction),
        lateness=_lateness(summary),
        drops=f"the receiving hosts dropped datagrams {drops:,} times: their buffers were full" if drops else "",
    )


def _core_wait(fraction: float | None) -> str:
    if fraction is None or fraction <= MOST_CORE_WAIT:
        return ""
    return f"an agent waited for a core {100 * fraction:.0f} % of the time"


def _steal(fraction: float | None) -> str:
    if fraction is None or fraction <= MOST_STEAL:
        return ""
    return f"the hypervisor took {100 * fraction:.1f} % of the cores' time (steal)"


def _lateness(summary: RunSummary) -> str:
    shortest = min((one.cct_p50_ns for one in summary.classes if one.cct_p50_ns), default=None)
    late = summary.tester.post_lateness_median_ns
    if late is None or shortest is None or late <= MOST_LATENESS_OF_CCT * shortest:
        return ""
    return f"posts were {format_duration(late)} late at the median, the shortest cct is {format_duration(shortest)}"
