"""The timeline of runs in a shaped lab: every byte, a step of the rate where it was made, and what it costs.

    python -m lab.benchmarks.timeline --rounds N [--topology FILE]
    python -m lab.benchmarks.timeline --step N
    python -m lab.benchmarks.timeline --sums N

Needs root, and a topology of hosts at one switch whose ports have rates: it brings up its lab. A round is an
all-reduce without and one with bins of 1 ms, in turns. Prints, of each round, goodput and processor time with /
without. Then it plays messages between two ranks, N times, while a port goes from its rate to a tenth of it and back;
with --step only that. A step's time is that of the kernel, and where it is found is what the run's table of events
says. With --sums it only adds up the bins of N runs of 8 ranks, in turns with and without lost frames, with path MTU
4096 and 1024, and of two collectives. Exit code 1 if the bins of a flow do not add up to its row in flows.parquet, if
a step is not within 2 bins of when it was made, or if the median goodput is below 0.98. A step decides nothing if
nobody knows to 2 bins when it was made, as when the command for it took long to start, or if none is found, as when a
busy host made a pause close by; if that are more than half, the exit code is 1 too.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.iterations import iteration_spans
from emulator.results.statistics.summary import summarise
from lab.benchmarks.verdicts.trials import TOPOLOGY, charkha

LEAST_GOODPUT, MOST_BINS = 0.98, 2
_RUN_S = 300
_STEP_BIN_NS = 10_000_000
_COUNTED = ("bytes", "retransmits", "ecn_marks")
_RANKS, _SUMS_BYTES, _SUMS_ITERATIONS = 8, 8 << 20, 5
_BYTES = {"all_reduce": 2 * (_RANKS - 1) * _SUMS_BYTES, "all_to_all": (_RANKS - 1) * _SUMS_BYTES}
"""Payload of all ranks in an iteration."""
_LOSSY = ("--profile", "lossy-link")
_KINDS = ((), _LOSSY, ("--path-mtu", 1024), (*_LOSSY, "--path-mtu", 1024))


def play(folder: Path, *options: object) -> Run:
    """One run."""
    charkha("bench", *options, "--out", folder, timeout_s=_RUN_S)
    return read_run(folder)


def differences(run: Run) -> int:
    """Flows whose bins do not add up to what flows.parquet says, or that only one of the two tables has."""
    sums: dict[tuple[int, ...], list[int]] = {}
    for row in run.table(RunTable.TIMELINE).to_pylist():
        total = sums.setdefault((row["src"], row["dst"], row["qpn"]), [0] * len(_COUNTED))
        for at, name in enumerate(_COUNTED):
            total[at] += row[name]
    none = [0] * len(_COUNTED)
    flows = [one for one in run.table(RunTable.FLOWS).to_pylist() if one["qpn"] is not None]
    wanted = {(one["src"], one["dst"], one["qpn"]): [one[name] or 0 for name in _COUNTED] for one in flows}
    return sum(sums.get(key, none) != wanted.get(key, none) for key in sums.keys() | wanted.keys())


def added_up(folder: Path, runs: int, topology: Path) -> int:
    """Runs in which the bins of a flow do not add up, or the flows not to the payload of the collective."""
    wrong = 0
    played = ("-n", _RANKS, "--iterations", _SUMS_ITERATIONS - 1, "--warmup", 1)
    for number in range(runs):
        kind = _KINDS[number % len(_KINDS)]
        collective = list(_BYTES)[number // len(_KINDS) % len(_BYTES)]
        options = (*played, "-b", _SUMS_BYTES, "-e", _SUMS_BYTES, "--set", "timeline=1ms", "--topology", topology)
        run = play(folder / f"sums-{number}", collective, *options, *kind)
        found = differences(run)
        flows = run.table(RunTable.FLOWS).to_pylist()
        size, retransmits, marks = (sum(one[name] or 0 for one in flows) for name in _COUNTED)
        what = " ".join(map(str, (collective, *kind)))
        print(f"run {number}: {found} of {len(flows)} flows do not add up; {what}: ", end="")
        print(f"{size:,} bytes, {retransmits:,} sent again, {marks:,} marked", flush=True)
        wrong += bool(found) or size != _BYTES[collective] * _SUMS_ITERATIONS
    print(f"{runs - wrong} of {runs} runs add up to the byte")
    return wrong


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
    window = ("--window-bytes", "512K")  # fits the queue of the port: nothing is lost, and no retry is waited for
    for number in range(runs):
        where = ("--topology", topology, "--set", "timeline=10ms", "--profile", spec)
        run = play(folder / f"step-{number}", *options, *window, *where)
        wrong += differences(run)
        [event] = summarise(run).events
        for edge, change, error_ns in (
            ("down", event.rate_at_begin, event.event.begin_error_ns),
            ("up", event.rate_at_end, event.event.end_error_ns),
        ):
            if change is None or error_ns is None:
                print(f"step {number} {edge}: not found", flush=True)
                continue
            error = (change.after_ns + min(max(0, -change.after_ns), error_ns)) / _STEP_BIN_NS
            rates = f"{change.from_bps / 1e6:.0f} to {change.to_bps / 1e6:.0f} Mbit/s"
            made = f"made within {error_ns / 1e6:.1f} ms ({event.event.seen_by})"
            print(f"step {number} {edge}: {error:+.2f} bins, {rates}, {made}", flush=True)
            if error_ns <= MOST_BINS * _STEP_BIN_NS:
                errors.append(error)
    return errors, wrong


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.timeline", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--topology", type=Path, default=Path(TOPOLOGY))
    parser.add_argument("--step", type=int, metavar="N", help="only N runs with steps")
    parser.add_argument("--sums", type=int, metavar="N", help="only the sums of N runs")
    chosen = parser.parse_args(arguments)
    ratios, wrong, runs = [], 0, chosen.step or chosen.rounds
    charkha("lab", "up", chosen.topology)
    try:
        with tempfile.TemporaryDirectory() as place:
            if chosen.sums:
                return int(added_up(Path(place), chosen.sums, chosen.topology) > 0)
            if not chosen.step:
                ratios, wrong = cost(Path(place), chosen.rounds, chosen.topology)
            errors, of_steps = found_steps(Path(place), runs, chosen.topology)
    finally:
        charkha("lab", "down", chosen.topology)
    wrong += of_steps
    late = [one for one in errors if abs(one) > MOST_BINS]
    print(f"{len(errors) - len(late)} of the {len(errors)} steps that decide within {MOST_BINS} bins; ", end="")
    print(f"{wrong} flows whose bins do not add up, in {runs + len(ratios)} runs")
    goodput = statistics.median(ratios) if ratios else 1.0
    if ratios:
        print(f"goodput {goodput:.4f} (median of {len(ratios)})")
    return int(wrong > 0 or bool(late) or len(errors) < runs or goodput < LEAST_GOODPUT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
