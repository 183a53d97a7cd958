"""The galleries of the site: ten runs and ten traces, as `charkha demo` plays its tours, and what to look at in each.

`python -m lab.scripts.gallery FOLDER [NAME …]`, as root on a quiet machine, writes into FOLDER a page and a report for
each run, and the page of each trace; with chromium also pictures of them. Traces and topologies are those that come
with Charkha, or are made by the commands shown. lab.scripts.record_tours records the traces' runs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from emulator.annexes.demo.playing import LabNamespaces, Played, play
from emulator.annexes.demo.tours import Tour, TourStep, written
from emulator.exit_codes import DONE, EXPECTATION_FAILED, TESTER_LIMITED, UNDECIDED

ROOT = Path(__file__).resolve().parents[2]
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
        "The first line says that nothing was lost; `ideal` says how close the collectives came to the ports' rate.",
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
        "Ports of 100 Gbit/s exist only on paper: this is loopback. The verdict does not blame the device.",
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
        "Three seconds without an uplink. Which iterations paid for it, and how soon were the next as fast as before?",
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


def _example(name: str, title: str, reader: str, *made: str, run: str = "", options: str = "") -> Tour:
    """A trace: how it is made, its page, and a run of it over loopback."""
    viewed = f"charkha trace view {name} --out {name}.html"
    run = run or f"charkha run {name} {options} --iterations 3 --out run-{name}".replace("  ", " ")
    steps = tuple(TourStep("", command) for command in (*made, viewed, run))
    return Tour(name=name, title=title, reader=reader, steps=steps, has_lab=False, shows=f"{name}.html")


def _converted(name: str, title: str, reader: str, file: str) -> Tour:
    return _example(name, title, reader, f"charkha trace convert lab/recordings/{file} {name}")


EXAMPLES = (
    _example(
        "dense",
        "Dense training in three dimensions",
        "A transformer on 8 ranks: tensor, pipeline and data parallelism of two each.",
        "charkha trace generate transformer --layers 4 --hidden 256 --sequence 256 --batch 8 --micro-batches 2"
        " --vocabulary 1024 --tensor 2 --pipeline 2 --data 2 --out dense",
    ),
    _example(
        "moe",
        "Mixture of experts",
        "Every layer sends tokens to the experts they chose and back. Few experts are popular: the matrix is uneven.",
        "charkha trace generate moe --expert 8 --layers 4 --tokens 64 --hidden 1024 --forward-only --routing zipf"
        " --out moe",
    ),
    _example(
        "inference",
        "Disaggregated inference",
        "Two prefill workers send the key-value cache of each prompt to two decode workers, as requests arrive.",
        "charkha trace generate inference --prefill 2 --decode 2 --model llama-3.1-8b --rate 200 --requests 20"
        " --input-length 64 --out inference",
    ),
    _example(
        "checkpoint",
        "Checkpoint and restart",
        "Four ranks read a checkpoint, and write one after each of two steps, to two storage hosts.",
        "charkha trace generate checkpoint --model 4000000 --data 4 --zero-stage 3 --steps 2 --restart"
        " --out checkpoint",
        options="--topology loopback-storage",
    ),
    _converted(
        "recommendation",
        "Recommendation model",
        "Embedding tables are split over 8 ranks: an all-to-all each way, and all-reduces of the dense layers.",
        "dlrm.txt",
    ),
    _converted(
        "pytorch",
        "From PyTorch",
        "Kineto traces of four ranks: compute segments, kernels, and the all-reduces of two gradient buckets.",
        "pytorch",
    ),
    _converted(
        "nccl",
        "From a log of NCCL",
        "What NCCL_DEBUG=INFO wrote of three steps on four ranks: pairs of tensor parallelism, and sharded gradients.",
        "nccl.log",
    ),
    _converted(
        "aicb",
        "From AICB",
        "A workload for SimAI: four layers on 8 ranks, with sequence parallelism in pairs.",
        "aicb.txt",
    ),
    _example(
        "incast",
        "Incast",
        "Seven ranks send to one at once, five times.",
        "charkha trace generate collective gather -n 8 -b 512K --count 5 --out incast",
    ),
    _example(
        "two-jobs",
        "Two jobs at once",
        "An all-reduce and an all-to-all, each alone and then both: the page is of the second.",
        "charkha trace generate collective all_reduce -n 4 -b 1M --count 5 --out training",
        "charkha trace generate collective all_to_all -n 4 -b 1M --count 5 --out two-jobs",
        run="charkha run --job a=training --job b=two-jobs --solo --iterations 3 --out run-two-jobs",
    ),
)
"""Traces that are small enough to be played in seconds. Their commands are for a clone."""


@contextmanager
def played(tour: Tour) -> Iterator[tuple[Path, list[Played]]]:
    """Play a tour in a folder that is there as long as the context, and say what takes how long.

    Raises:
        StepFailed: a command of it failed.
    """
    with tempfile.TemporaryDirectory(prefix=f"charkha-{tour.name}-") as folder:
        if any(" lab/" in step.command for step in tour.steps):
            (Path(folder) / "lab").symlink_to(ROOT / "lab")
        done = []
        with LabNamespaces.make() if tour.has_lab else nullcontext() as place:
            for one in play(tour, Path(folder), place=place, record=True):
                done.append(one)
                print(f"{one.seconds:6.1f} s  {one.step.command.splitlines()[0]}", file=sys.stderr)
        yield Path(folder), done


def photograph(page: Path) -> None:
    """Write pictures of the top of a page beside it, light and dark, if there is chromium."""
    chromium = shutil.which("chromium")
    for scheme in ("light", "dark") if chromium else ():
        subprocess.run(
            [
                *(str(chromium), "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1200,750"),
                *("--virtual-time-budget=10000", f"--blink-settings=preferredColorScheme={int(scheme == 'light')}"),
                *(f"--screenshot={page.with_name(f'{page.stem}-{scheme}.png')}", page.as_uri()),
            ],
            check=True,
            capture_output=True,
        )


def pictures(name: str, folder: Path, title: str, *, at: str = "") -> str:
    """Markdown of what `photograph` made of a page in a folder, which is `at` for the reader; "" if nothing."""
    shown = " ".join(
        f"![{title}]({at}{name}-{scheme}.png#only-{scheme})"
        for scheme in ("light", "dark")
        if (folder / f"{name}-{scheme}.png").exists()
    )
    return shown and f"[{shown}]({at}{name}.html)"


def page_name(example: Tour) -> str:
    """The file of the page of a trace, without its end: a report may have the same name."""
    return f"trace-{example.name}"


def write_example(example: Tour, folder: Path) -> None:
    """Make a trace and write its page; it is not run."""
    with played(replace(example, steps=example.steps[:-1])) as (made, _):
        shutil.copyfile(made / example.shows, folder / f"{page_name(example)}.html")
    photograph(folder / f"{page_name(example)}.html")


def write(exhibit: Tour, folder: Path) -> None:
    """Play an exhibit, and write its page and report."""
    with played(exhibit) as (made, done):
        first = done[-1].output.partition("\n")[0]
        shutil.copyfile(made / exhibit.shows, folder / f"{exhibit.name}.html")
    photograph(folder / f"{exhibit.name}.html")
    commands = "".join(f"$ {step.command}\n" for step in exhibit.steps)
    text = f"# {exhibit.title}\n[Open the report]({exhibit.name}.html). {exhibit.reader}\n\n```console\n{commands}```\n"
    (folder / f"{exhibit.name}-page.md").write_text(f"{text}```text\n{first}\n```\n", encoding="utf-8")


def index(folder: Path) -> str:
    """The page that lists the exhibits in a folder, Markdown."""
    opening = "Real reports of real runs on a virtual machine with two cores: each is the file that `charkha` wrote."
    parts = [f"# Gallery of reports\n{opening}\n"]
    for one in EXHIBITS:
        if (folder / f"{one.name}.html").exists():
            links = f"[Open the report]({one.name}.html), or see [how it was made]({one.name}-page.md)."
            parts.append(f"## {one.title}\n{one.reader} {links}\n\n{pictures(one.name, folder, one.title)}\n")
    return "\n".join(parts)


def with_pages(text: str, folder: Path) -> str:
    """docs/examples.md with a link to the page of each trace that is in a folder, and its picture."""
    for one in EXAMPLES:
        if (folder / f"{page_name(one)}.html").exists():
            shown = f"[Open its page](../gallery/{page_name(one)}.html).\n\n"
            shown += pictures(page_name(one), folder, one.title, at="../gallery/")
            text = text.replace(f"## {one.title}\n{one.reader}\n", f"## {one.title}\n{one.reader} {shown}\n")
    return text


def main(folder: Path, names: Sequence[str]) -> None:
    """Write the exhibits and examples of these names, or all."""
    folder.mkdir(parents=True, exist_ok=True)
    for one, how in [*((one, write) for one in EXHIBITS), *((one, write_example) for one in EXAMPLES)]:
        if not names or one.name in names:
            how(one, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
