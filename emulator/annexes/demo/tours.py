"""The tours that come with Charkha: the demo, and a tutorial for each of three people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emulator import exit_codes
from emulator.exit_codes import EXPECTATION_FAILED, REGRESSION, UNDECIDED


@dataclass(frozen=True, slots=True)
class TourStep:
    """One command.

    Attributes:
        why: what it is for, one or two sentences.
        command: for a POSIX shell, as a user types it.
        codes: exit codes with which the tour goes on.
        what: of an exit code: what it means here, for the last lines of the tour.
    """

    why: str
    command: str
    codes: Sequence[int] = (exit_codes.DONE,)
    what: str = ""


@dataclass(frozen=True, slots=True)
class Tour:
    """Commands in order.

    Attributes:
        name: word of the command line.
        title: headline.
        reader: for whom it is, and what they have in the end.
        steps: its commands.
        has_lab: it brings up a lab.
        shows: file with the result, relative to the folder of the tour.
        further: what to read or do next, Markdown.
    """

    name: str
    title: str
    reader: str
    steps: Sequence[TourStep]
    has_lab: bool
    shows: str
    further: str = ""


def written(name: str, text: str) -> str:
    """The command that writes a file of a few lines."""
    return f"cat > {name} <<'END'\n{text.strip()}\nEND"


# The queue holds all that the hosts may have in flight, so that a busy machine loses no frame of its own.
_SWITCH = """
name: NAME
hosts:
  - {name: h0, per_rank: 198.18.1.0/24}
  - {name: h1, per_rank: 198.18.2.0/24}
switches:
  - {name: sw0, kind: bridge, queue: 16M}
links:
  - {endpoints: ["h0:eth0", "sw0:p0"], rate: 500Mbit, mtu: 1500}
  - {endpoints: ["h1:eth0", "sw0:p1"], rate: 500Mbit, mtu: 1500}
dut: {kind: switch, nodes: [sw0]}
transport: {name: roce}
"""


def _switch(name: str) -> str:
    """The command that writes the topology of a lab of this name."""
    return written("switch.yaml", _SWITCH.replace("NAME", name))


_LOSES_NOTHING = """
charkha_rules: 1
name: the switch loses nothing
rules:
  - {metric: frames_lost, at_most: 0}
  - {metric: icrc_errors, at_most: 0}
  - {metric: incomplete, at_most: 0}
"""
_FULL_PACKETS = """
charkha_rules: 1
name: packets are full
rules:
  - {metric: packets, at_most: 40000}
  - {metric: icrc_errors, at_most: 0}
  - {metric: incomplete, at_most: 0}
"""
_RUN = "charkha run all-reduce --topology switch.yaml --iterations 3"
DEMO = Tour(
    name="demo",
    title="Good firmware, bad firmware",
    reader="Two hosts at a switch whose firmware loses one frame in 200, found by rules, by flow and by comparison.",
    has_lab=True,
    shows="bad/report.html",
    steps=(
        TourStep("A lab: two hosts and a switch, in network namespaces.", _switch("demo")),
        TourStep("Bring it up.", "charkha lab up switch.yaml"),
        TourStep(
            "What the switch has to meet. These are counts of the device and of packets: they do not depend on how "
            "fast or busy this machine is.",
            written("rules.yaml", _LOSES_NOTHING),
        ),
        TourStep(
            "Traffic: five all-reduces of 1 MiB between two ranks. A trace of a real job is played the same way.",
            "charkha trace generate collective all_reduce -n 2 -b 1M --count 5 --out all-reduce",
        ),
        TourStep(
            "Good firmware: it forwards everything.",
            f"{_RUN} --profile fw-a --expect rules.yaml --out good",
            what="good firmware",
        ),
        TourStep(
            "Bad firmware: it loses one frame in 200. The verdict is in the first line, the worst flows below.",
            f"{_RUN} --profile fw-b --expect rules.yaml --out bad",
            codes=(EXPECTATION_FAILED,),
            what="bad firmware",
        ),
        TourStep(
            "Is it slower, and by how much? Five runs of each, in turns; their table goes to a file.",
            f"{_RUN} --profiles fw-a,fw-b --repeat 5 --no-report --out ab > ab.txt",
        ),
        TourStep(
            "Compared run by run: ratio, interval, test, and what became of the packets. On a machine that is busy "
            "with other work it may say that it cannot decide.",
            "charkha compare ab/fw-a ab/fw-b --html compare.html",
        ),
        TourStep("Remove the lab.", "charkha lab down demo"),
    ),
)
_LOOP = "charkha run all-reduce --iterations 3 --expect rules.yaml"
DEMO_LOOPBACK = Tour(
    name="demo",
    title="Good firmware, bad firmware",
    reader="Two ranks on loopback; bad firmware cuts messages into packets of 256 bytes, and a rule finds it.",
    has_lab=False,
    shows="bad/report.html",
    steps=(
        TourStep(
            "What the endpoints have to meet. These are counts of packets: they do not depend on how fast or busy "
            "this machine is.",
            written("rules.yaml", _FULL_PACKETS),
        ),
        TourStep(
            "Traffic: ten all-reduces of 1 MiB between two ranks. A trace of a real job is played the same way.",
            "charkha trace generate collective all_reduce -n 2 -b 1M --count 10 --out all-reduce",
        ),
        TourStep(
            "Good firmware: packets of 4,096 bytes.",
            f"{_LOOP} --path-mtu 4096 --out good",
            what="good firmware",
        ),
        TourStep(
            "Bad firmware: the ends agree on 256 bytes. The verdict is in the first line.",
            f"{_LOOP} --path-mtu 256 --out bad",
            codes=(EXPECTATION_FAILED,),
            what="bad firmware",
        ),
        TourStep(
            "Side by side. Both are settings of the tester, which compare refuses unless it is forced; and one run "
            "each is too few to say that anything is slower, which it says.",
            "charkha compare good bad --force --html compare.html",
        ),
    ),
)
_ONE_LOST = """
name: one-lost
description: loses one frame in 500 at one port
rules:
  - name: at-p1
    drop: {every: 500}
    opcode: [first, middle]
    port: "sw0:p1"
"""
_PLAYED = "charkha run job --topology switch.yaml --iterations 2"
VALIDATION = Tour(
    name="validation",
    title="Find a planted fault in a switch",
    reader="For an engineer who validates switches and NICs: from a topology to the port that loses frames.",
    has_lab=True,
    shows="faulty/report.html",
    further=(
        "Next: your own device. [Real hardware](physical.md) has agents on two machines and the switch between them, "
        "[profiles](profiles.md) the faults, [expect](expect.md) the rules, [suites](suites.md) a test plan as a file."
    ),
    steps=(
        TourStep("The device under test is a switch between two hosts.", _switch("validation")),
        TourStep("Bring it up: each host and the switch is a network namespace.", "charkha lab up switch.yaml"),
        TourStep("What is connected, and at which rate?", "charkha lab status validation"),
        TourStep(
            "The traffic of a training job: a transformer on four ranks, tensor and data parallel.",
            "charkha trace generate transformer --layers 2 --hidden 256 --sequence 256 --batch 4 --vocabulary 1024"
            " --tensor 2 --data 2 --out job",
        ),
        TourStep(
            "What will cross the switch, and how long would it take at port rate? No traffic yet.",
            "charkha plan job --topology switch.yaml",
        ),
        TourStep(
            "What the switch has to meet: counts, which do not depend on how fast or busy this machine is.",
            written("rules.yaml", _LOSES_NOTHING),
        ),
        TourStep(
            "The clean device first: a tester that fails here is not ready to judge another. Where the agents' own "
            "time is much of a cct, the column `tester` says so.",
            f"{_PLAYED} --profile fw-a --expect rules.yaml --out clean",
            what="clean",
        ),
        TourStep("Plant a fault: one frame in 500 is lost, at one port.", written("one-lost.yaml", _ONE_LOST)),
        TourStep(
            "Play again. The first line is the verdict; `DUT` is what the switch counted. `Worst flows` names the "
            "flows: both take the same way, so each has all of its device drops.",
            f"{_PLAYED} --profile one-lost.yaml --expect rules.yaml --out faulty",
            codes=(EXPECTATION_FAILED,),
            what="faulty",
        ),
        TourStep(
            "Which port? What came in at p0 and did not go out at p1 is what was lost on the way to h1. The counters "
            "of every port are a table in the run folder; those of a real switch come by gNMI, SNMP or SSH.",
            "charkha runs export faulty --to csv --out tables"
            " && grep 'sw0.*[rt]x_packets' tables/counters.csv | tail -4",
        ),
        TourStep("Both runs in one list.", "charkha runs list ."),
        TourStep("Remove the lab.", "charkha lab down validation"),
    ),
)
_SLOW = """
name: slow
description: ports send at four fifths of their rate
rules:
  - shape: {rate: 80%}
"""
_GATE = "charkha compare ab/fw-a ab/slow --gate"
CI = Tour(
    name="ci",
    title="A gate for new firmware",
    reader="For whoever runs a pipeline: exit codes and files that a job can act on, from a good and a slow version.",
    has_lab=True,
    shows="compare.html",
    further=(
        "Next: [charkha-gate.yml](ci-recipe.md) and its siblings for GitLab and Jenkins are these commands as a job, "
        "[exit codes](exit-codes.md) lists every code, [compare](compare.md) says how many runs a difference needs."
    ),
    steps=(
        TourStep("A lab stands in for the device; your pipeline has the real one.", _switch("gate")),
        TourStep("Bring it up.", "charkha lab up switch.yaml"),
        TourStep(
            "The job's traffic, made here; yours can be a recording of PyTorch. Messages are large: of small ones, "
            "what a port passes at once hides its rate.",
            "charkha trace generate collective all_reduce -n 2 -b 4M --count 2 --out job",
        ),
        TourStep("Can it be played? Bad input ends here with exit code 2.", "charkha trace check job"),
        TourStep("What the device has to meet.", written("rules.yaml", _LOSES_NOTHING)),
        TourStep(
            "A run with rules: exit code 0 is PASS, 5 FAIL, 6 TESTER-LIMITED, 7 UNDECIDED; JSON is for the job.",
            "charkha run job --topology switch.yaml --profile fw-a --expect rules.yaml --json --out first > run.json"
            " && echo passed",
            what="released firmware",
        ),
        TourStep("The new firmware, here a fault: ports at four fifths of their rate.", written("slow.yaml", _SLOW)),
        TourStep(
            "Five runs of each version, in turns, so that a drift of the machine affects both.",
            "charkha run job --topology switch.yaml --profiles fw-a,slow.yaml --repeat 5 --no-report --out ab",
        ),
        TourStep(
            "The gate: 4 if a class is slower, 7 if no class could be decided (`--gate=strict`: if one could not), and "
            "files for the job's summary. `finds` is the slowdown that so many runs of this spread would find.",
            f"{_GATE} --junit compare.xml --html compare.html",
            codes=(REGRESSION, UNDECIDED),
            what="new firmware",
        ),
        TourStep("The same as Markdown, for a comment on the change.", "charkha compare ab/fw-a ab/slow --markdown"),
        TourStep("What a reader of JUnit files sees: one case per class.", "grep -o '<testcase [^>]*>' compare.xml"),
        TourStep("Remove the lab.", "charkha lab down gate"),
    ),
)
CHAKRA = Tour(
    name="chakra",
    title="From a trace to measured times, and back",
    reader="For a researcher with Chakra traces: look at one, play it, and take the measured trace to a simulator.",
    has_lab=False,
    shows="run/report.html",
    further=(
        "Next: [PyTorch](pytorch.md) and [other recordings](importers.md) as input, [how a trace is read](traces.md), "
        "[ASTRA-sim](export.md) with the fitted network, [sharing](sharing.md) traces without their names."
    ),
    steps=(
        TourStep(
            "A job: a transformer on eight ranks. `charkha trace convert` makes such a folder of PyTorch traces.",
            "charkha trace generate transformer --layers 2 --hidden 256 --sequence 256 --batch 4 --vocabulary 1024"
            " --tensor 2 --pipeline 2 --data 2 --micro-batches 2 --out job",
        ),
        TourStep("What is in it, and the proof that a run of it finishes.", "charkha trace check job"),
        TourStep(
            "Look at it: time line, traffic from rank to rank, critical path.",
            "charkha trace view job --out job.html",
        ),
        TourStep(
            "How would it load a fabric of two leaves and two spines? No traffic.",
            "charkha plan job --topology leaf-spine-2x2",
        ),
        TourStep(
            "Play it over loopback: RoCEv2 packets between eight addresses. The job computes for 28 µs a rank, so "
            "nearly all of an iteration is communication.",
            "charkha run job --iterations 3 --out run",
        ),
        TourStep(
            "The run folder has the trace with measured times in it: the same graph, other durations. That of a "
            "communication is what its rank took from post to done, the wait for late peers included: the median.",
            "charkha trace diff job run/trace",
        ),
        TourStep("Late ranks and percentiles of every class.", "charkha runs show run"),
        TourStep(
            "For ASTRA-sim: workload, groups, its command line, and a network of one latency and one bandwidth, fitted "
            "to the measured times. The fit is judged: over loopback cores are the limit, not a network, so it is "
            "seldom good, and the replay of measured times is what to use.",
            "charkha runs export run --to astra-sim --out astra && sed -n '/^Fit/,$p' astra/README.txt",
        ),
        TourStep(
            "A copy that you can share: it plays the same, but has no names.", "charkha trace anonymize job shared"
        ),
        TourStep("A new trace, drawn from the statistics of this one.", "charkha trace synth job like-it --seed 7"),
    ),
)
TOURS: Mapping[str, Tour] = {tour.name: tour for tour in (DEMO, VALIDATION, CI, CHAKRA)}
"""By name."""


def without_lab(tour: Tour) -> Tour:
    """What to play in place of a tour where there is no lab; the tour itself if there is nothing."""
    return DEMO_LOOPBACK if tour is DEMO else tour
