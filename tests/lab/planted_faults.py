"""Faults planted at a port of a switch, and whether Charkha finds them: `python -m tests.lab.planted_faults`.

Four hosts at one switch. Each draw loses frames of one kind at one port, where they enter or where they leave, and
plays a short run. Right is: the verdict is FAIL because of lost frames, and the summary names that port (as a port of
the device, or as the end of the flows that lost packets). A draw whose rule met no frame planted no fault, and does not
count.
"""

import argparse
import json
import random
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.worst.worst_flows import LossFocus, loss_foci
from emulator.results.verdict.judge import Outcome, judge
from emulator.results.verdict.rules import EXAMPLE, load_rules
from tests.lab.trials import star_lab, timed
from tests.support.star_lab import Lab

HOSTS = 4
_RARE, _FREQUENT = ("first", "last"), ("middle", "data")
_SPECIFICATIONS = {
    "share": {True: "share: 40%", False: "share: 1%"},
    "every": {True: "every: 3", False: "every: 60"},
    "once": {True: "once: true", False: "once: true"},
}
"""How frames are dropped, of those that a message has once (True) and of the others."""
_LOSSES = ("frames_lost", "unexplained_retransmissions")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one draw: `how` and `opcode` as in a profile; `is_entering`: at the port where frames come in."""

    how: str
    opcode: str
    port: int
    is_entering: bool
    collective: str

    def __str__(self) -> str:
        side = "entering" if self.is_entering else "leaving"
        return f"{self.collective:10} {self.how:5} {self.opcode:6} {side:8} sw0:p{self.port}"

    @property
    def profile(self) -> str:
        """The profile that plants it."""
        drop = _SPECIFICATIONS[self.how][self.opcode in _RARE]
        key = "arriving" if self.is_entering else "port"
        return f'rules:\n  - {{name: planted, drop: {{{drop}}}, opcode: {self.opcode}, {key}: "sw0:p{self.port}"}}\n'

    def is_named_by(self, foci: Sequence[LossFocus]) -> bool:
        """Whether that is where losses are said to be, or one of the places."""
        return any(map(self._is_at, foci))

    def _is_at(self, focus: LossFocus) -> bool:
        if focus.port:
            return focus.port == f"sw0:p{self.port}"
        return (focus.source if self.is_entering else focus.destination) == f"h{self.port}:eth0"


@dataclass(frozen=True, slots=True)
class Found:
    """What a run said of a fault.

    Attributes:
        planted: frames that the rule dropped.
        other: frames that the device dropped besides.
        outcome: of the verdict.
        is_failed: the verdict is FAIL, and because of lost frames.
        is_named: the summary names the port.
        is_named_by_flows: it does so without the counters of the device, too.
    """

    planted: int
    other: int
    outcome: str
    is_failed: bool
    is_named: bool
    is_named_by_flows: bool

    @property
    def is_right(self) -> bool:
        """Verdict and port."""
        return self.is_failed and self.is_named


def draws(seed: int) -> Iterator[Fault]:
    """Faults without end, the same for the same seed."""
    drawn = random.Random(seed)
    while True:
        yield Fault(
            drawn.choice([*_SPECIFICATIONS]),
            drawn.choice([*_RARE, *_FREQUENT]),
            drawn.randrange(HOSTS),
            drawn.random() < 0.5,
            drawn.choice(["all_to_all", "all_reduce"]),
        )


def play(lab: Lab, fault: Fault) -> Found:
    """Plant a fault, play, and read what the run says."""
    (lab.folder / "planted.yaml").write_text(fault.profile)
    sweep = ("-n", HOSTS, "-b", "512K", "-e", "512K", "--iterations", 4, "--warmup", 1, "--profile", "planted.yaml")
    try:
        return judged(lab.run(fault.collective, *sweep, out="run"), fault)
    finally:
        shutil.rmtree(lab.folder / "run", ignore_errors=True)


def judged(run: Run, fault: Fault) -> Found:
    """What a run says of the fault planted in it."""
    summary = summarise(run)
    verdict = judge(summary, load_rules(EXAMPLE))
    failed = {one.rule.metric.name for one in verdict.findings if one.outcome is Outcome.FAIL}
    flows, counters = run.table(RunTable.FLOWS), run.table(RunTable.COUNTERS)
    planted = summary.totals.dut.get("profile_drops", 0)
    return Found(
        planted,
        sum(frames.lost or 0 for frames in summary.totals.device_frames) - planted,
        verdict.outcome.value,
        verdict.outcome is Outcome.FAIL and bool(failed.intersection(_LOSSES)),
        fault.is_named_by(summary.loss_foci),
        fault.is_named_by(loss_foci(flows, counters.slice(0, 0), run.manifest)),
    )


def measure(count: int, seed: int) -> list[tuple[Fault, Found]]:
    """Play faults until `count` were planted, and tell each."""
    results: list[tuple[Fault, Found]] = []
    with star_lab(HOSTS) as lab:
        for number, fault in enumerate(draws(seed)):
            if len(results) == count:
                break
            found = timed(number, partial(play, lab, fault), partial(_describe, fault))
            if found.planted:
                results.append((fault, found))
    return results


def summary_text(results: list[tuple[Fault, Found]]) -> str:
    """`60 faults: verdict 60, port 59, both 59 (98 %); port by flows alone 51`."""
    n = len(results)
    verdicts, ports, both, flows = (
        sum(getattr(found, name) for _, found in results)
        for name in ("is_failed", "is_named", "is_right", "is_named_by_flows")
    )
    share = f"{100 * both / n:.0f} %" if n else "-"
    return f"{n} faults: verdict {verdicts}, port {ports}, both {both} ({share}); port by flows alone {flows}"


def _describe(fault: Fault, found: Found) -> str:
    what = "right" if found.is_right else "WRONG" if found.planted else "not planted"
    named = f"{'named' if found.is_named else 'NOT named'}, by flows {'named' if found.is_named_by_flows else 'not'}"
    counts = f"{found.planted:4} planted, {found.other} others"
    return f"{what:11} {fault}: {found.outcome}, {named}; {counts}"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = measure(options.draws, options.seed)
    if options.json:
        print(json.dumps([asdict(fault) | asdict(found) for fault, found in results]))
    else:
        print(summary_text(results))
    return 0 if all(found.is_right for _, found in results) else 1


if __name__ == "__main__":
    sys.exit(main())
