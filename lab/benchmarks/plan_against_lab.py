"""What `charkha plan` predicts against what a lab measures: a pairwise all-to-all on the shipped leaf-spine.

    python -m lab.benchmarks.plan_against_lab [--iterations 5] [--rows pinned,seed-1] [--json FILE]

Needs root and an idle machine: every row brings up a lab of its own, plays, and takes it down, in half a minute.
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq

LEAF_SPINE = (Path(__file__).parents[2] / "topologies" / "leaf-spine-2x2.yaml").read_text()
HASHED = "ecmp: {seed: 1}"
PINS = "routes:\n" + "".join(
    f"  - {{at: leaf{1 - leaf}, to: h{4 * leaf + host}, via: spine{host % 2}}}\n"
    for leaf in (0, 1)
    for host in range(4)
)
WHAT = ("all_to_all", "-n", "8", "-b", "4M", "--algorithm", "all_to_all=pairwise", "--topology", "lab.yaml")
TITLES = {
    "wide": "pinned, wide",
    "pinned": "pinned",
    "seed-1": "hashed as Linux does, seed 1",
    "seed-3": "hashed, seed 3",
    "seed-5": "hashed, seed 5",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table; times in seconds."""

    flows: str
    fair_s: float
    measured_s: float
    iterations: int

    def __str__(self) -> str:
        over_fair = self.measured_s / self.fair_s - 1
        return f"| {self.flows} | {self.fair_s:.3f} s | {self.measured_s:.3f} s | {over_fair:+.1%} |"


def topology(row: str) -> str:
    """The leaf-spine with the flows of a row; in "wide" its uplinks are twice as fast."""
    if row.startswith("seed-"):
        return LEAF_SPINE.replace(HASHED, f"ecmp: {{seed: {row.removeprefix('seed-')}}}")
    pinned = LEAF_SPINE.replace(HASHED, PINS)
    return doubled_uplinks(pinned) if row == "wide" else pinned


def doubled_uplinks(text: str) -> str:
    """Every link between switches at twice its rate, 40 Mbit/s."""
    return "".join(
        line.replace("20Mbit", "40Mbit") if "spine" in line and "leaf" in line else line
        for line in text.splitlines(keepends=True)
    )


def charkha(*words: str, folder: Path) -> str:
    """Run a command; its stdout."""
    command = [sys.executable, "-m", "emulator", *words]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def measured_s(run: Path) -> tuple[float, int]:
    """Median over the measured iterations of last end - first start, s, and how many there are."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for row in pq.read_table(run / "iterations.parquet").to_pylist():
        spans.setdefault(row["iteration"], []).append((row["start_ns"], row["end_ns"]))
    times = [
        max(end for _, end in one) - min(start for start, _ in one) for number, one in spans.items() if number >= 0
    ]
    return median(times) / 1e9, len(times)


def measure(row: str, *, iterations: int) -> Row:
    """Plan a row and play it in a lab of its own."""
    with tempfile.TemporaryDirectory(prefix="charkha-plan-") as scratch:
        folder, lab = Path(scratch), f"plan-{secrets.token_hex(4)}"
        (folder / "lab.yaml").write_text(topology(row))
        charkha("lab", "up", "lab.yaml", "--id", lab, "--force", folder=folder)
        try:
            plan: Mapping[str, Any] = json.loads(charkha("plan", "--collective", *WHAT, "--json", folder=folder))
            play = ("-e", "4M", "--iterations", str(iterations), "--lab", lab, "--out", "run", "--no-report")
            charkha("bench", *WHAT, *play, folder=folder)
            seconds, count = measured_s(folder / "run")
        finally:
            charkha("lab", "down", lab, folder=folder)
    ideal_ns = plan["operations"][0]["ideal_ns"]
    return Row(TITLES[row], ideal_ns["fair_steps"] / 1e9, seconds, count)


def main() -> None:
    """Print the table as docs/plan.md has it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--rows", default=",".join(TITLES), help=f"of {', '.join(TITLES)}")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    print("| flows | fair steps | measured | more than fair |")
    print("|---|---|---|---|")
    rows = []
    for name in args.rows.split(","):
        rows.append(measure(name, iterations=args.iterations))
        print(rows[-1], flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps([asdict(one) for one in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
