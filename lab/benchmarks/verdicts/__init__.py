"""Whether verdicts are right, on devices that are known to be good or bad: `python -m lab.benchmarks.verdicts PART`."""
