"""Play the trials of a part in a lab, and print one table. Needs root and a quiet machine.

python -m lab.benchmarks.verdicts PART [--count N]
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

from lab.benchmarks.verdicts import busy, clean, compare, counts, delay, faults, late, neighbours
from lab.benchmarks.verdicts.trials import report

PARTS = {
    "busy": partial(report, busy.cases()),
    "clean": partial(report, clean.cases()),
    "compare": compare.play,
    "counts": counts.play,
    "delay": partial(report, delay.cases()),
    "faults": partial(report, faults.cases()),
    "late": late.play,
    "neighbours": neighbours.play,
}


def main() -> int:
    """Exit code 1 if a verdict or a figure is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--count", type=int, default=10, help="trials of a case (default: %(default)s)")
    args = parser.parse_args()
    return PARTS[args.part](args.count)


if __name__ == "__main__":
    sys.exit(main())
