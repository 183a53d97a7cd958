"""How far the median of a run may be off by chance, from blocks of iterations.

Neighbouring iterations are alike, so they do not count as independent. They are cut into blocks that are long enough to
be nearly independent, by the correlation of neighbours. The share of values below the median scatters from block to
block as much as the correlation makes it. So far below and above one half, that share may be off: the values at these
two shares are the ends of an interval of the median. It does not grow, as the scatter of medians would, because
a few iterations took very long. A run that is too short for BLOCKS has its iterations instead, and counts them as
fewer by the correlation of neighbours: fewer blocks would widen it by a factor for themselves.

Sources: GUM (JCGM 100:2008) 4.2 and G.3; Heidelberger and Lewis, Quantile Estimation in Dependent Sequences, Operations
Research 32 (1984).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from emulator.results.statistics.method.descriptive import Values, median, student_t_quantile
from emulator.results.statistics.samples.collectives import FloatArray
from emulator.trace.meaning.model import IntArray

BLOCKS, SHORTEST_BLOCK = 10, 2
FEWEST_ITERATIONS = 8
WITHIN_TWO_SIGMA = 0.5 + math.erf(math.sqrt(2)) / 2
"""Share of a normal distribution below two standard deviations above its mean."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Standard uncertainty of a median by chance.

    Attributes:
        relative: / the median, widened for few blocks: twice it covers as much as of a normal distribution; None: not
            known.
        iterations, blocks: that it follows from; 0 blocks: from the iterations themselves.
        why: why it is not known; "" if it is.
    """

    relative: float | None
    iterations: int
    blocks: int = 0
    why: str = ""

    @property
    def source(self) -> str:
        """Where it comes from, for people."""
        how = f"in {self.blocks} blocks" if self.blocks else "and how much neighbours are alike"
        return self.why or f"{self.iterations} iterations {how}, Student's t"


def repeat_of(values: Values, iteration: IntArray) -> Repeat:
    """That of the lower median of one run.

    Args:
        values: times, in any order.
        iteration: of each value.
    """
    _, which, sizes = np.unique(iteration, return_inverse=True, return_counts=True)
    count, centre = len(sizes), median(values) or 0.0
    if count < FEWEST_ITERATIONS or centre <= 0:
        few = "one iteration" if count == 1 else f"{count} iterations, and {FEWEST_ITERATIONS} are the fewest"
        return Repeat(None, count, why=few if count < FEWEST_ITERATIONS else "no time above zero")
    below = np.bincount(which, (values < centre) + (values == centre) / 2) / sizes
    typical = np.bincount(which, values) / sizes if len(values) > count else values[np.argsort(which)]
    neighbours = _correlation(typical)
    length = max(SHORTEST_BLOCK, math.ceil((1 + neighbours) / (1 - neighbours)))
    blocks = BLOCKS if count // length >= BLOCKS else 0
    independent = float(below.std(ddof=1)) / math.sqrt(count)
    if blocks:
        shares = np.array([one.mean() for one in np.array_split(below, blocks)])
        of_blocks = _widened(blocks) * float(shares.std(ddof=1)) / math.sqrt(blocks)
        reach = max(of_blocks, 2 * independent)  # blocks never say less than independence
    else:
        reach = _widened(count) * independent * math.sqrt((1 + neighbours) / (1 - neighbours))
    if reach > 0.5:
        return Repeat(None, count, why=f"{count} iterations, and each is much like the one before: play more")
    ends = np.interp(len(values) * np.array([0.5 - reach, 0.5 + reach]) - 0.5, np.arange(len(values)), np.sort(values))
    return Repeat(float(ends[1] - ends[0]) / 4 / centre, count, blocks)


def _widened(count: int) -> float:
    """What so many trials, instead of many, make of two standard deviations: Student's t."""
    return student_t_quantile(WITHIN_TWO_SIGMA, count - 1)


def _correlation(values: Values) -> float:
    """That of neighbours, 0 to 0.99: by ranks, since outliers would hide it, and corrected for few values (Kendall)."""
    ranks = np.unique(values, return_inverse=True)[1]
    off: FloatArray = ranks - ranks.mean()
    whole = float(off @ off)
    found = float(off[1:] @ off[:-1]) / whole if whole else 0.0
    return min(max(found + (1 + 3 * found) / len(values), 0.0), 0.99) if whole else 0.0
