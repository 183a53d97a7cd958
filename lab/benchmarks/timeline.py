"""The timeline of runs in a shaped lab: every byte, a step of the rate where it was made, and what it costs.

    python -m lab.benchmarks.timeline --rounds N [--topology FILE]

Needs root, and a lab of hosts at one switch whose ports have rates. A round is an all-reduce without and one with bins
of 1 ms, in turns. Prints, of each round, goodput and processor time with / without. Then it plays messages between two
ranks, N times, while a port goes from its rate to a tenth of it and back. Exit code 1 if the bins of a flow do not add
up to its row in flows.parquet, if a step is not within 2 bins of when it was made, or if the median goodput is below
0.98. A step decides nothing if nobody knows to 2 bins when it was made, as when the command for it took long to start;
if that are more than half, the exit code is 1 too.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.events import device_events
from emulator.results.statistics.samples.iterations import iteration_spans
from emulator.results.statistics.samples.measured_rows import to_ints
from lab.benchmarks.verdicts.trials import TOPOLOGY, charkha

LEAST_GOODPUT, MOST_BINS = 0.98, 2
_RUN_S = 300
_BEFORE_NS, _AFTER_NS = 300_000_000, 300_000_000
_COUNTED = ("bytes", "retransmits", "ecn_marks")


def play(folder: Path, *options: object) -> Run:
    """One run."""
    charkha("bench", *options, "--out", folder, timeout_s=_RUN_S)
    return read_run(folder)


def differences(run: Run) -> int:
    """Flows whose bins do not add up to what flows.parquet says."""
    sums: dict[tuple[int, ...], list[int]] = {}
    for row in run.table(RunTable.TIMELINE).to_pylist():
        total = sums.setdefault((row["src"], row["dst"], row["qpn"]), [0] * len(_COUNTED))
        for at, name in enumerate(_COUNTED):
            total[at] += row[name]
    flows = [one for one in run.table(RunTable.FLOWS).to_pylist() if one["qpn"] is not None]
    expected = ([one[name] or 0 for name in _COUNTED] for one in flows)
    keys = ((one["src"], one["dst"], one["qpn"]) for one in flows)
    return sum(sums.get(key, [0] * len(_COUNTED)) != want for key, want in zip(keys, expected, strict=True))


def step_error(timeline: pa.Table, made_ns: int, uncertainty_ns: int) -> float:
    """Bins between a step of the rate to rank 1, where the spread on both sides is smallest, and when it was made.

    Args:
        timeline: of the run.
        made_ns: when it had been made.
        uncertainty_ns: it was made at most so long before.
    """
    bin_ns = int(to_ints(timeline["bin_ns"]).max())
    begin = (made_ns - _BEFORE_NS) // bin_ns * bin_ns
    rows = to_ints(timeline["dst"]) == 1
    at, size = (to_ints(timeline["start_ns"])[rows] - begin) // bin_ns, to_ints(timeline["bytes"])[rows]
    rate = np.zeros((_BEFORE_NS + _AFTER_NS) // bin_ns)
    inside = (at >= 0) & (at < len(rate))
    np.add.at(rate, at[inside], size[inside])
    cuts = range(1, len(rate))
    spread = [rate[:cut].var() * cut + rate[cut:].var() * (len(rate) - cut) for cut in cuts]
    found = begin + cuts[int(np.argmin(spread))] * bin_ns
    return (found - min(max(found, made_ns - uncertainty_ns), made_ns)) / bin_ns


def cost(folder: Path, rounds: int, topology: Path) -> tuple[list[float], int]:
    """(goodput with / without, of each round; flows whose bins do not add up)."""
    ratios, wrong = [], 0
    options = ("all_reduce", "-n", 2, "-b", "32M", "-e", "32M", "--iterations", 12, "--topology", topology)
    for number in range(rounds):
        figures = {}
        for bins in ("off", "1ms") if number % 2 else ("1ms", "off"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run = play(folder / f"{number}-{bins}", *options, "--set", f"timeline={bins}")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spans = iteration_spans(run.table(RunTable.ITERATIONS), run.manifest)
            times = [one.end_ns - one.start_ns for number, one in spans.items() if number >= 0]
            used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            figures[bins] = statistics.median(times), used_s
            wrong += differences(run) if bins != "off" else 0
        ratios.append(figures["off"][0] / figures["1ms"][0])
        used = figures["1ms"][1] / figures["off"][1]
        print(f"round {number}: goodput {ratios[-1]:.4f}, processor time {used:.3f}", flush=True)
    return ratios, wrong


def found_steps(folder: Path, runs: int, topology: Path) -> tuple[list[float], int]:
    """(errors in bins of the steps that decide, flows whose bins do not add up)."""
    errors, wrong = [], 0
    spec = folder / "slower.yaml"
    spec.write_text('name: slower\nrules:\n- {shape: {rate: 10%}, port: "sw0:p1", start: 0.5, end: 1.2}\n')
    options = ("sendrecv", "-n", 2, "-b", "100M", "-e", "100M", "--iterations", 1, "--warmup", 0)
    for number in range(runs):
        where = ("--topology", topology, "--set", "timeline=10ms", "--profile", spec)
        run = play(folder / f"step-{number}", *options, *where)
        wrong += differences(run)
        timeline = run.table(RunTable.TIMELINE)
        for one in device_events(run.table(RunTable.EVENTS)):
            if one.begin_ns is None or one.begin_error_ns is None:
                continue
            error = step_error(timeline, one.begin_ns, one.begin_error_ns)
            print(f"step {number}: {error:+.2f} bins, made within {one.begin_error_ns / 1e6:.1f} ms", flush=True)
            if one.begin_error_ns <= MOST_BINS * int(to_ints(timeline["bin_ns"]).max()):
                errors.append(error)
    return errors, wrong


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.timeline", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--topology", type=Path, default=Path(TOPOLOGY))
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        ratios, wrong = cost(Path(place), chosen.rounds, chosen.topology)
        errors, of_steps = found_steps(Path(place), chosen.rounds, chosen.topology)
    wrong += of_steps
    late = [one for one in errors if abs(one) > MOST_BINS]
    goodput = statistics.median(ratios)
    print(f"goodput {goodput:.4f} (median of {len(ratios)}); {len(errors) - len(late)} of the {len(errors)} steps that")
    print(f"decide within {MOST_BINS} bins; {wrong} flows whose bins do not add up, in {2 * chosen.rounds} runs")
    return int(wrong > 0 or bool(late) or 2 * len(errors) < chosen.rounds or goodput < LEAST_GOODPUT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
