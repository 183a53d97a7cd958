"""The uncertainty of a figure as a budget, as GUM (JCGM 100:2008) has it. docs/uncertainty.md has the formulas.

    u² = u_repeat² + u_clock² + u_stamp² + u_reference² + u_steal²,  U = 2 u

What is not known is never a number: then U is not stated. The tester's own share of a time has a sign, so it stands
beside U.

u_repeat says how far the median of a run may be off by chance, from blocks of iterations. Neighbouring iterations are
alike, so they do not count as independent. They are cut into blocks that are long enough to be nearly independent, by
the correlation of neighbours. The share of values below the median scatters from block to block as much as the
correlation makes it. So far below and above one half, that share may be off: the values at these two shares are the
ends of an interval of the median. It does not grow, as the scatter of medians would, because a few iterations took very
long. A run that is too short for BLOCKS has its iterations instead, and counts them as fewer by the correlation of
neighbours: fewer blocks would widen it by a factor for themselves.

Sources: GUM (JCGM 100:2008) 4.2 and G.3; Heidelberger and Lewis, Quantile Estimation in Dependent Sequences, Operations
Research 32 (1984).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from emulator.results.run_folder.manifest import KERNEL_OBSERVATION_POINT, Manifest
from emulator.results.statistics.calibration import expired
from emulator.results.statistics.method.descriptive import Values, median, student_t_quantile
from emulator.results.statistics.samples.collectives import STAMP_ERROR_NS, FloatArray
from emulator.trace.meaning.model import IntArray

COVERAGE_FACTOR = 2
REPEAT, CLOCK, STAMP, REFERENCE, STEAL = COMPONENTS = "repeat", "clock", "stamp", "reference", "steal"
_MANY_RUNS = 1_000
"""From so many on, Student's t is the normal distribution."""
_LAB_RATE = 0.003
"""Most by which the shaper of a lab is off its rate: 0.3 % (docs/lab.md)."""
_LINE_RATE = 100e-6
"""The same of an Ethernet port: IEEE 802.3 allows ±100 ppm."""


@dataclass(frozen=True, slots=True)
class Component:
    """A part of a budget.

    Attributes:
        name: one of COMPONENTS.
        standard: standard uncertainty, in the unit of the figure; None: not known.
        kind: A: from the scatter of the measurements; B: from a bound that is known otherwise.
        source: where it comes from, or why it is not known.
    """

    name: str
    standard: float | None
    kind: Literal["A", "B"]
    source: str

    @property
    def only_lengthens(self) -> bool:
        """Whether such an error makes times longer, and never shorter."""
        return self.name in (STAMP, STEAL)


@dataclass(frozen=True, slots=True)
class Budget:
    """The uncertainty of one figure, in its unit.

    Attributes:
        standard, expanded: combined standard uncertainty u, and U = k u; None: not stated.
        why: why it is not stated; "" if it is.
        bias: what the tester itself added to the figure, with its sign; not in U; None: not known.
        iterations, runs: behind `repeat`; 0 runs: it is of one run, so that iterations are.
    """

    value: float
    standard: float | None
    expanded: float | None
    components: tuple[Component, ...]
    why: str = ""
    bias: float | None = None
    iterations: int = 0
    k: int = COVERAGE_FACTOR
    runs: int = 0

    @classmethod
    def of(
        cls, value: float, parts: Sequence[Component], *, bias: float | None = None, count: int = 0, why: str = ""
    ) -> Budget:
        """The sum of its parts; not stated for the reason given, or because one of them is not known."""
        why = why or next((one.source for one in parts if one.standard is None), "")
        standard = None if why else math.hypot(*(one.standard or 0.0 for one in parts))
        expanded = None if standard is None else COVERAGE_FACTOR * standard
        return cls(value, standard, expanded, tuple(parts), why, bias, count)

    def part(self, name: str) -> Component | None:
        """The component of this name; None: it has none."""
        return next((one for one in self.components if one.name == name), None)

    @property
    def relative(self) -> float | None:
        """U / value; None if U is not stated."""
        return None if self.expanded is None or not self.value else self.expanded / abs(self.value)

    def towards(self, *, better: bool) -> float:
        """U if the true value may be worse or better than this one; 0 if it is not stated.

        Args:
            better: errors that only lengthen times count too: they hid that it is better.
        """
        parts = [one.standard or 0.0 for one in self.components if better or not one.only_lengthens]
        return 0.0 if self.expanded is None else COVERAGE_FACTOR * math.hypot(*parts)

    def needs_to_decide(self, limit: float, *, better: bool) -> int | None:
        """Runs, or of one run iterations, with which U would no longer reach a limit; None: more do not help.

        Only what comes from chance shrinks, with the root of their number; of runs, Student's t shrinks too.

        Args:
            better: as for `towards`.
        """
        repeat = self.part(REPEAT)
        chance = 0.0 if repeat is None else repeat.standard or 0.0
        rest = (self.towards(better=better) / COVERAGE_FACTOR) ** 2 - chance**2
        room = (abs(self.value - limit) / COVERAGE_FACTOR) ** 2 - rest
        if room <= 0 or not chance:
            return None
        if not self.runs:
            return math.ceil(self.iterations * chance**2 / room)
        spread = self.runs * (chance / widened(self.runs)) ** 2 / room
        found = bisect_left(range(_MANY_RUNS), True, lo=self.runs, key=lambda runs: spread * widened(runs) ** 2 <= runs)
        return found if found < _MANY_RUNS else math.ceil(spread * COVERAGE_FACTOR**2)


def stated(budget: Budget | None) -> float | None:
    """U of a figure; None without a budget, or if it is not stated."""
    return None if budget is None else budget.expanded


@dataclass(frozen=True, slots=True)
class Sources:
    """What a run knows of errors that more iterations do not lessen: bounds, taken as rectangular (u = bound / √3).

    Attributes:
        clock_ns: error of a time difference between two agents, the drift over the run included.
        stamp_ns: how late a time stamp of the agents is; None: not known.
        reference: share by which the rates that ideal % divides by may be off; None: not known.
        steal: share of the cores' time that the hypervisor took; None: not recorded.
    """

    clock_ns: float
    stamp_ns: float | None
    stamp: str
    reference: float | None
    reference_source: str
    steal: float | None

    @classmethod
    def of(cls, manifest: Manifest) -> Sources:
        """Those of a run."""
        steal = [one.steal_fraction for one in manifest.hosts if one.steal_fraction is not None]
        return cls(manifest.clock.error_ns, *_stamp(manifest), *_reference(manifest), max(steal, default=None))

    def stamped(self, bound_ns: float = STAMP_ERROR_NS) -> Sources:
        """Those of times whose messages the kernels stamped, at most so much late."""
        return replace(self, stamp_ns=bound_ns, stamp=_KERNEL_STAMP)

    def budgets(
        self,
        figures: Mapping[str, float | None],
        time_ns: float | None,
        *,
        by_time: Repeat,
        by_rate: Repeat,
        tester_percent: float | None = None,
    ) -> dict[str, Budget]:
        """Name of a figure → its budget; those without a value have none.

        Args:
            figures: times (their names end in _ns), and what goes with 1 / time or, of a ratio to a time, with time.
            time_ns: the time that all of them follow from: its relative errors are theirs.
            by_time, by_rate: of the times, and of the rest.
            tester_percent: share of the tester in the time; None: not known.
        """
        share = None if tester_percent is None or tester_percent >= 100 else tester_percent / 100
        found = {}
        for name, value in figures.items():
            is_time = name.endswith("_ns")
            if value and time_ns:
                bias = None if share is None else value * share if is_time else -value * share / (1 - share)
                repeat, has_reference = by_time if is_time else by_rate, name in _OF_IDEAL
                found[name] = self._budget(value, repeat, time_ns, has_reference=has_reference, bias=bias)
        return found

    def _budget(
        self, value: float, repeat: Repeat, time_ns: float, *, has_reference: bool, bias: float | None
    ) -> Budget:
        parts = tuple(
            Component(name, None if share is None else share * abs(value), "A" if name == REPEAT else "B", source)
            for name, share, source in self._shares(repeat, time_ns, has_reference=has_reference)
        )
        return Budget.of(value, parts, bias=bias, count=repeat.iterations)

    def _shares(
        self, repeat: Repeat, time_ns: float, *, has_reference: bool
    ) -> Iterator[tuple[str, float | None, str]]:
        """Name, relative standard uncertainty and source of every component."""
        yield REPEAT, repeat.relative, repeat.source
        clock = "bound of the offset between agents over the run" if self.clock_ns else "all agents share one clock"
        yield CLOCK, _rectangular(self.clock_ns / time_ns), clock
        yield STAMP, None if self.stamp_ns is None else _rectangular(self.stamp_ns / time_ns), self.stamp
        if has_reference:
            reference = None if self.reference is None else _rectangular(self.reference)
            yield REFERENCE, reference, self.reference_source
        if self.steal is not None:
            yield STEAL, _rectangular(self.steal), "share of the cores' time that the hypervisor took"


_KERNEL_STAMP = "kernel's time stamps, at most 20 µs late a transfer"
_OF_IDEAL = ("ideal_percent", "roofline_ratio")
"""Figures that the rates of ports are in."""


def _rectangular(bound: float) -> float:
    return bound / math.sqrt(3)


def _stamp(manifest: Manifest) -> tuple[float | None, str]:
    """How late stamps of the agents themselves are, at most, ns, and where that is known from."""
    if manifest.observation_point == KERNEL_OBSERVATION_POINT:
        return STAMP_ERROR_NS, _KERNEL_STAMP
    for name, what in (("timer_ns", "how late an idle agent wakes"), ("step_ns", "a step of the idle tester")):
        bound = manifest.calibration.get(name)
        if isinstance(bound, int | float):
            old = expired(manifest.calibration, manifest.created)
            return float(bound), "; ".join(filter(None, (f"{what}, as calibrated", old)))
    return None, "error of time stamps not known: the run has none of the kernel, and no calibration"


def _closure(manifest: Manifest) -> str:
    """What closure tests say of the rate of a lab."""
    tests = {one["name"]: one["inside"] for one in manifest.calibration.get("closure", ())}
    if tests.get("rate") is None:
        return "no closure test (agent calibrate --closure)"
    old = expired(manifest.calibration, manifest.created)
    said = "found a planted rate" if tests["rate"] else "did NOT find a planted rate"
    return old or f"a closure test on {str(manifest.calibration['created'])[:10]} {said}"


def _reference(manifest: Manifest) -> tuple[float | None, str]:
    """By what share the rates of ports may be off, at most, and where that is known from."""
    if manifest.topology.get("lab"):
        return _LAB_RATE, f"shaper of the lab, at most 0.3 % off its rate; {_closure(manifest)}"
    ports = [
        port.get("rate_bps") for host in manifest.topology.get("hosts", ()) for port in host.get("interfaces") or [host]
    ]
    speeds = {nic.get("speed_bps") for host in manifest.hosts for nic in host.nics}
    if speeds and set(ports) <= speeds - {None}:
        return _LINE_RATE, "line rate that the interfaces report, ±100 ppm (IEEE 802.3)"
    return None, "error of the rate not known: the topology states it, and no interface reports it"


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
        of_blocks = widened(blocks) * float(shares.std(ddof=1)) / math.sqrt(blocks)
        reach = max(of_blocks, 2 * independent)  # blocks never say less than independence
    else:
        reach = widened(count) * independent * math.sqrt((1 + neighbours) / (1 - neighbours))
    if reach > 0.5:
        return Repeat(None, count, why=f"{count} iterations, and each is much like the one before: play more")
    ends = np.interp(len(values) * np.array([0.5 - reach, 0.5 + reach]) - 0.5, np.arange(len(values)), np.sort(values))
    return Repeat(float(ends[1] - ends[0]) / 4 / centre, count, blocks)


def widened(count: int) -> float:
    """What so many trials, instead of many, make of two standard deviations: Student's t."""
    return student_t_quantile(WITHIN_TWO_SIGMA, count - 1)


def _correlation(values: Values) -> float:
    """That of neighbours, 0 to 0.99: by ranks, since outliers would hide it, and corrected for few values (Kendall)."""
    ranks = np.unique(values, return_inverse=True)[1]
    off: FloatArray = ranks - ranks.mean()
    whole = float(off @ off)
    found = float(off[1:] @ off[:-1]) / whole if whole else 0.0
    return min(max(found + (1 + 3 * found) / len(values), 0.0), 0.99) if whole else 0.0
