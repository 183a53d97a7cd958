"""A rank that is late, on a clean device and with every port at 75 %: the share of ideal stays that of the device.

All-to-all of 16 MiB among 4 ranks, whose rank 3 computes for 0, 10 or 400 ms longer than the others before each.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from lab.benchmarks.verdicts.trials import IN_LAB, charkha, raised

LATE_MS = (0, 10, 400)
CLEAN_PERCENT = 97.0, 101.0
MOST_AT_75_PERCENT = 90.0
PORTS_AT_75 = "name: ports-at-75\nrules:\n  - shape: {rate: 75%}\n"


def play(count: int) -> int:
    """Play every case `count` times in one lab and print a row a case; 1 if a share is wrong."""
    wrong = 0
    with raised(), tempfile.TemporaryDirectory(prefix="charkha-late-") as scratch:
        profile = Path(scratch) / "ports-at-75.yaml"
        profile.write_text(PORTS_AT_75)
        print(f"{'device':12} {'late':>7}  busbw_to_ideal, %")
        for late_ms in LATE_MS:
            trace = _trace(Path(scratch), late_ms)
            for device, options in (("clean", ()), ("ports at 75 %", ("--profile", profile))):
                found = [_share(trace, Path(scratch) / f"{late_ms}-{device[:5]}-{n}", options) for n in range(count)]
                is_right = all(one is None or _is_right(one, device) for one in found)
                wrong += not is_right
                cells = " ".join("-" if one is None else f"{one:.1f}" for one in found)
                print(f"{device:12} {late_ms:4} ms  {cells}  {'' if is_right else 'WRONG'}", flush=True)
    return int(wrong > 0)


def _is_right(share: float, device: str) -> bool:
    if device == "clean":
        return CLEAN_PERCENT[0] <= share <= CLEAN_PERCENT[1]
    return share < MOST_AT_75_PERCENT


def _trace(scratch: Path, late_ms: int) -> Path:
    """A trace whose rank 3 computes longer: its file is that of one with a larger gap."""
    what = ("trace", "generate", "collective", "all_to_all", "-n", 4, "-b", "16M", "--count", 8)
    folder, later = scratch / f"late-{late_ms}", scratch / f"source-{late_ms}"
    charkha(*what, "--gap-micros", 1_000, "--out", folder)
    charkha(*what, "--gap-micros", 1_000 * (1 + late_ms), "--out", later)
    (of_rank_3,) = later.glob("*.3.et")
    shutil.copyfile(of_rank_3, folder / of_rank_3.name)
    return folder


def _share(trace: Path, out: Path, options: tuple[object, ...]) -> float | None:
    charkha("run", trace, *IN_LAB, "--iterations", 1, "--out", out, "--no-report", *options)
    (row,) = json.loads(charkha("runs", "show", out, "--json"))["classes"]
    share: float | None = row["ideal_percent"]
    return share
