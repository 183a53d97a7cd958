"""Whether value ± U contains what was planted, and not by being large: closure tests with many planted values.

    python -m lab.benchmarks.coverage [--trials N] [--quantity NAME …] [--busy] [--seed N]

Needs root and a quiet machine. A trial plants a random value of a quantity in the lab of the closure tests, and finds
it by their code. `ratio` plants two rates instead, in runs that take turns, and compares them. `goodput` plants
nothing: what a port of 1 Gbit/s carries follows from the bytes of its frames, for three pairs of MTU and path MTU.

The table has, for each quantity: in how many trials U was stated; in how many the planted value lay within it, of which
seven of eight are asked for; the medians of the error and of U, in percent of what was planted; and the median of
U / |error|, at most 5. Errors of losses are counts, and U is 0: there, equal is inside. A goodput that is wrong by at
most 0.3 % counts too. With --busy, as many loops as cores run beside.

Exit code 1 if a quantity misses one of these.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from emulator.annexes.bench_kit.closure import ClosureBed, busy, closure_bed
from emulator.errors import EmulatorError
from emulator.results.comparison.groups import groups_of
from emulator.results.comparison.verdicts import ComparisonRules, compare_pair
from emulator.results.statistics.calibration import ClosureTest
from emulator.results.statistics.samples.classes import JCT
from emulator.results.statistics.summary import summarise
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from lab.benchmarks.verdicts.trials import TOPOLOGY

LEAST_INSIDE, MOST_RATIO, MOST_GOODPUT_ERROR = 7 / 8, 5.0, 0.003
"""Share of the trials whose U contains what was planted, median of U / |error|, and error of a goodput."""
RATE_BPS, RUNS, SIZE = 10**9, 6, 4 << 20
"""Of the ports; runs of each of two rates that are compared, and bytes of a collective in them."""
GOODPUT_SIZE, GOODPUT_ITERATIONS = 64 << 20, 8
Trial = Callable[[ClosureBed, random.Random], ClosureTest]


def ratio(bed: ClosureBed, chance: random.Random) -> ClosureTest:
    """Times at two rates, of runs in turns: their ratio is that of the rates."""
    shares = chance.sample(range(40, 91), 2)
    runs: dict[str, list[Path]] = {"a": [], "b": []}
    for _ in range(RUNS):
        for folders, share in zip(runs.values(), shares, strict=True):
            folders.append(bed.run_slowed(share, SIZE, iterations=10).folder)
    baseline, other = groups_of(runs)
    pair = compare_pair(baseline, other, ComparisonRules())
    (one,) = (one for one in pair.classes if one.key.collective != JCT)
    planted, budget = shares[0] / shares[1], one.uncertainty
    if budget is None:
        return ClosureTest("ratio", "1", planted, None, None, "no ratio")
    return ClosureTest("ratio", "1", planted, budget.value, budget.expanded, budget.why)


def goodput(bed: ClosureBed, _: random.Random, *, path_mtu: int) -> ClosureTest:
    """Payload that crosses ports at their rate, bit/s: that of full frames, as IEEE 802.3 and RoCEv2 have them."""
    ethernet, headers = 14 + 4 + 8 + 12, 20 + 8 + 12 + 4  # with FCS, preamble and gap; IPv4, UDP, BTH and ICRC
    planted = RATE_BPS * path_mtu / (path_mtu + ethernet + headers)
    run = bed.play(GOODPUT_ITERATIONS, GOODPUT_SIZE, collective="broadcast", options={"path_mtu": path_mtu})
    (one,) = summarise(run).classes
    part = one if one.network is None else one.network
    algbw, ideal = part.uncertainty.get("algbw_bytes_per_s"), part.uncertainty.get("ideal_percent")
    if algbw is None or ideal is None:
        return ClosureTest("goodput", "bit/s", planted, None, None, "no bandwidth")
    # What is planted has the error of the shaper, which the share of ideal has in its budget.
    expanded = None if ideal.expanded is None else ideal.expanded / ideal.value * algbw.value * 8
    return ClosureTest("goodput", "bit/s", planted, algbw.value * 8, expanded, ideal.why)


TRIALS: Mapping[str, Trial] = {
    "rate": lambda bed, chance: bed.rate(share=chance.randint(30, 90)),
    "delay": lambda bed, chance: bed.delay(held_us=chance.randint(100, 500)),
    "loss": lambda bed, chance: bed.loss(every=chance.randint(20, 200)),
    "outage": lambda bed, chance: bed.outage(milliseconds=chance.randint(50, 400), at_ms=chance.randint(20, 150)),
    "ratio": ratio,
}
PAIRS = (1500, 1024), (9000, 1024), (9000, 4096)
GOODPUTS = {f"goodput {mtu}/{path_mtu}": (mtu, path_mtu) for mtu, path_mtu in PAIRS}
"""Name → MTU and path MTU."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What trials of a quantity say together.

    Attributes:
        trials: all, those that failed included.
        stated, inside: with U; whose U contains what was planted.
        close: whose error is at most the share that is allowed, or inside.
        error, expanded: medians of |error| / planted and of U / planted; NaN without one.
        ratio: median of U / |error| of those that are not exact; None: all are.
    """

    trials: int
    stated: int
    inside: int
    close: int
    error: float
    expanded: float
    ratio: float | None

    @classmethod
    def of(cls, found: Sequence[ClosureTest | None], *, allowed: float = 0.0) -> Coverage:
        """That of some trials; None: one that failed.

        Args:
            allowed: |error| / planted up to which a value is close.
        """
        known = [(one, one.planted, one.found - one.planted) for one in found if one and one.planted and one.found]
        stated = [(one.expanded or 0.0, planted, error) for one, planted, error in known if one.is_inside is not None]
        close = (one.is_inside or abs(error) <= allowed * planted for one, planted, error in known)
        ratios = [wide / abs(error) if error else math.inf for wide, _, error in stated if wide or error]
        return cls(
            trials=len(found),
            stated=len(stated),
            inside=sum(bool(one.is_inside) for one, _, _ in known),
            close=sum(map(bool, close)),
            error=_median([abs(error) / planted for _, planted, error in known]),
            expanded=_median([wide / planted for wide, planted, _ in stated]),
            ratio=statistics.median(ratios) if ratios else None,
        )

    @property
    def covers(self) -> bool:
        """Enough are inside, and not because U is large."""
        return self.inside >= LEAST_INSIDE * self.trials and (self.ratio is None or self.ratio <= MOST_RATIO)

    def __str__(self) -> str:
        ratio = "exact" if self.ratio is None else f"{self.ratio:.1f}"
        return f"{self.trials:6} {self.stated:6} {self.inside:6} {self.error:9.3%} {self.expanded:9.3%} {ratio:>11}"


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else math.nan


def played(quantity: str, count: int, chance: random.Random, scratch: Path) -> Iterator[ClosureTest | None]:
    """Trials of one quantity, in a lab of its own; None: the run failed."""
    topology, trial = load_topology(TOPOLOGY, ranks=0), TRIALS.get(quantity)
    if trial is None:
        mtu, path_mtu = GOODPUTS[quantity]
        topology, trial = _with_mtu(mtu, scratch), partial(goodput, path_mtu=path_mtu)
    with closure_bed(topology, RATE_BPS, scratch) as bed:
        for _ in range(count):
            try:
                yield trial(bed, chance)
            except EmulatorError as error:
                print(f"{quantity}: {error}", file=sys.stderr)
                yield None


def _with_mtu(mtu: int, scratch: Path) -> Topology:
    """The topology with links of another MTU."""
    path = scratch / f"{mtu}.yaml"
    path.write_text(TOPOLOGY.read_text().replace("mtu: 1500", f"mtu: {mtu}"))
    return load_topology(path, ranks=0)


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.coverage", description=__doc__.split("\n")[0])
    names = [*TRIALS, *GOODPUTS]
    parser.add_argument("--trials", type=int, default=40, help="of each quantity (default: %(default)s)")
    parser.add_argument("--quantity", action="append", choices=[*TRIALS, "goodput"], help="repeatable (default: all)")
    parser.add_argument("--busy", action="store_true", help="a loop on every core beside")
    parser.add_argument("--seed", type=int, default=1, help="of what is planted (default: %(default)s)")
    parser.add_argument("--verbose", action="store_true", help="a line for each trial")
    args = parser.parse_args(arguments)
    chosen = [one for one in names if args.quantity is None or one.partition(" ")[0] in args.quantity]
    wrong = 0
    print(f"{'quantity':18} trials stated inside     error         U   U / |error|")
    for name in chosen:
        found: list[ClosureTest | None] = []
        with tempfile.TemporaryDirectory(prefix="charkha-coverage-") as scratch, busy(100 if args.busy else 0):
            for one in played(name, args.trials, random.Random(args.seed), Path(scratch)):
                found.append(one)
                if args.verbose and one is not None:
                    print(f"  {one.planted} found {one.found} U {one.expanded} {one.why}", file=sys.stderr, flush=True)
        is_goodput = name in GOODPUTS
        of = Coverage.of(found, allowed=MOST_GOODPUT_ERROR if is_goodput else 0.0)
        is_right = of.close == of.trials if is_goodput else of.covers
        wrong += not is_right
        print(f"{name:18} {of}  {'yes' if is_right else 'NO'}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
