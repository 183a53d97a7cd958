"""The gallery of the site: ten runs as `charkha demo` plays its tours, each with its report and what to look at.

`python -m lab.scripts.gallery FOLDER [NAME …]`, as root on a quiet machine, writes a page and a report for each into
FOLDER, and index.md. Traces and topologies are those that come with Charkha, or are made by the commands shown.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from emulator.annexes.demo.place import LabNamespaces
from emulator.annexes.demo.playing import play
from emulator.annexes.demo.tours import Tour, TourStep, written
from emulator.exit_codes import DONE, EXPECTATION_FAILED, TESTER_LIMITED, UNDECIDED

_SWITCH, _FABRIC = "two-hosts-switch", "leaf-spine-2x2"
_ANY = (DONE, EXPECTATION_FAILED, TESTER_LIMITED, UNDECIDED)
_RING = TourStep("", "charkha trace generate collective all_reduce -n 2 -b 4M --count 5 --out all-reduce")
_ONE_SLOW = """
rules:
  - {shape: {rate: 30%, queue: 16M}, port: "sw0:p1"}
"""
_UPLINK_DOWN = """
rules:
  - {port: "leaf0:u0", state: down, start: 2, end: 5}
"""


def _exhibit(name: str, title: str, look_at: str, *steps: TourStep | str, report: str = "run/report.html") -> Tour:
    made = tuple(step if isinstance(step, TourStep) else TourStep("", step, codes=_ANY) for step in steps)
    has_lab = any("lab up" in step.command for step in made)
    return Tour(name=name, title=title, reader=look_at, steps=made, has_lab=has_lab, shows=report)


def _on_switch(*, profile: str, options: str = "") -> str:
    run = f"charkha run all-reduce --topology {_SWITCH} --profile {profile} --iterations 3"
    return f"{run} {options} --out run".replace("  ", " ")


def _compared(profiles: str, second: str) -> Sequence[TourStep | str]:
    return (
        f"charkha lab up {_SWITCH}",
        _RING,
        f"charkha run all-reduce --topology {_SWITCH} --profiles {profiles} --repeat 5 --iterations 3 --out ab",
        f"charkha compare ab/fw-a ab/{second} --html compare.html",
    )


EXHIBITS = (
    _exhibit(
        "healthy",
        "A healthy switch",
        "The first line says that nothing was lost; `ideal` how close the collectives came to the rate of the ports.",
        f"charkha lab up {_SWITCH}",
        _RING,
        _on_switch(profile="fw-a"),
    ),
    _exhibit(
        "lossy",
        "A lossy link",
        "One frame in 1,000 is lost. Look at *Worst flows*, at the resends of each iteration, and at the longest cct.",
        f"charkha lab up {_SWITCH}",
        _RING,
        _on_switch(profile="lossy-link", options="--expect example"),
    ),
    _exhibit(
        "incast",
        "Incast: seven senders, one receiver",
        "Seven ports feed one. Look at the matrix of traffic, and at what the queue of the receiver's port dropped.",
        "charkha lab up eight-hosts-switch",
        "charkha trace generate collective gather -n 8 -b 512K --count 5 --out gather",
        "charkha run gather --topology eight-hosts-switch --iterations 3 --out run",
    ),
    _exhibit(
        "ecmp-collision",
        "ECMP collision",
        "With one UDP source port for all, flows between leaves hash to few paths: one uplink is full, one idle.",
        f"charkha lab up {_FABRIC}",
        "charkha trace generate collective all_to_all -n 8 -b 256K --count 2 --out all-to-all",
        f"charkha run all-to-all --topology {_FABRIC} --source-port fixed --iterations 2 --out run",
    ),
    _exhibit(
        "straggler",
        "A straggler",
        "One port sends at 30 % of its rate. Every rank waits for it: look at which flow is slow, not at who waits.",
        written("one-slow.yaml", _ONE_SLOW),
        f"charkha lab up {_SWITCH}",
        _RING,
        _on_switch(profile="one-slow.yaml"),
    ),
    _exhibit(
        "tester-limited",
        "The tester is the limit",
        "Ports of 100 Gbit/s exist on paper alone: this is loopback. The verdict does not blame the device.",
        _RING,
        "charkha run all-reduce --topology two-hosts --iterations 3 --expect example --out run",
    ),
    _exhibit(
        "slower",
        "A against B: slower",
        "Ports at 90 % of their rate. Look at the intervals: none crosses 1, and the test agrees.",
        *_compared("fw-a,slow-port", "slow-port"),
        report="compare.html",
    ),
    _exhibit(
        "equal",
        "A against A",
        "The same firmware twice: nothing is slower. *finds* says what such runs could have shown.",
        "cp $(charkha help examples fw-a) again.yaml && sed -i s/fw-a/again/ again.yaml",
        *_compared("fw-a,again.yaml", "again"),
        report="compare.html",
    ),
    _exhibit(
        "failover",
        "Failover",
        "Three seconds without an uplink. Look at the iterations: which one paid, and how soon the next is as before.",
        written("uplink-down.yaml", _UPLINK_DOWN),
        f"charkha lab up {_FABRIC}",
        "charkha trace generate collective all_reduce -n 8 -b 512K --count 2 --out all-reduce",
        f"charkha run all-reduce --topology {_FABRIC} --profile uplink-down.yaml --iterations 8 --out run",
    ),
    _exhibit(
        "interference",
        "Two jobs, one switch",
        "Each job is played alone, then both at once. Look at the interference factors and the shared time line.",
        f"charkha lab up {_SWITCH}",
        _RING,
        f"charkha run --job a=all-reduce --job b=all-reduce --topology {_SWITCH} --iterations 3 --solo --out run",
    ),
)


def write(exhibit: Tour, folder: Path) -> None:
    """Play an exhibit, and write its page and report.

    Raises:
        StepFailed: a command of it failed.
    """
    with (
        tempfile.TemporaryDirectory(prefix="charkha-gallery-") as scratch,
        LabNamespaces.make() if exhibit.has_lab else nullcontext() as place,
    ):
        for played in play(exhibit, Path(scratch), place=place, record=True):
            print(f"{played.seconds:6.1f} s  {played.step.command.splitlines()[0]}", file=sys.stderr)
            first = played.output.partition("\n")[0]
        shutil.copyfile(Path(scratch) / exhibit.shows, folder / f"{exhibit.name}.html")
    commands = "".join(f"$ {step.command}\n" for step in exhibit.steps)
    text = f"# {exhibit.title}\n[Open the report]({exhibit.name}.html). {exhibit.reader}\n\n```console\n{commands}```\n"
    (folder / f"{exhibit.name}-page.md").write_text(f"{text}```text\n{first}\n```\n", encoding="utf-8")


def index(folder: Path) -> str:
    """The page that lists the exhibits in a folder, Markdown."""
    rows = "".join(
        f"| [{one.title}]({one.name}.html) | {one.reader} | [how it was made]({one.name}-page.md) |\n"
        for one in EXHIBITS
        if (folder / f"{one.name}.html").exists()
    )
    opening = "Real reports of real runs on a virtual machine with two cores: each is the file that `charkha` wrote.\n"
    return f"# Gallery\n{opening}\n| report | what to look at | commands |\n|---|---|---|\n{rows}"


def main(folder: Path, names: Sequence[str]) -> None:
    """Write the exhibits of these names, or all, and the index."""
    folder.mkdir(parents=True, exist_ok=True)
    for exhibit in EXHIBITS:
        if not names or exhibit.name in names:
            write(exhibit, folder)
    (folder / "index.md").write_text(index(folder), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
