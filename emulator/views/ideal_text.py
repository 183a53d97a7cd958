"""Why a share of the ideal is what it is, where it would surprise a reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from emulator.statistics.class_summary import ClassSummary
from emulator.units import format_size
from emulator.views.figures import count_of

_ABOVE_PERCENT, _LOW_PERCENT = 100.5, 10.0
_SHORT_NS = 100_000
"""An ideal time below this is short beside the latency of software at both ends."""


def explain_ideal(classes: Iterable[ClassSummary]) -> Iterator[str]:
    """Sentences about classes that are above 100 % of their ideal, or small ones far below; none if there are none."""
    known = [(one, one.ideal_percent, one.cct_p50_ns) for one in classes if one.ideal_percent and one.cct_p50_ns]
    above = sum(percent >= _ABOVE_PERCENT for _, percent, _ in known)
    if above:
        yield (
            f"{count_of(above, 'class is', 'classes are')} above 100 % of ideal: a port passed more than its rate in"
            " the topology. A shaper lets a burst through; otherwise that rate is too low."
        )
    small = [one for one, percent, cct in known if percent < _LOW_PERCENT and percent / 100 * cct < _SHORT_NS]
    if small:
        largest = format_size(max(one.size_bytes for one in small))
        yield (
            f"{count_of(len(small), 'class', 'classes')} of up to {largest} cannot come near 100 % of ideal: ideal is"
            " bytes / rate of the ports, and small messages are mostly latency."
        )
