"""Comparisons of the same with the same, and with a switch whose ports run at 97 and 90 %.

Equal switches differ in no class. At 97 % every class shows a ratio of 1.031 ± 0.005, or that the tester or a burst
dilutes it; at 90 % one is slower.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from emulator.results.comparison.verdicts import BURST_PERCENT, DILUTED_PERCENT
from lab.benchmarks.verdicts.trials import IN_LAB, TOPOLOGY, charkha, raised

DEVICES = {"the same": "[]", "97 %": "[{shape: {rate: 97%}}]", "90 %": "[{shape: {rate: 90%}}]"}
RATIO_AT_97, ERROR = 1 / 0.97, 0.005
_SERIES_S = 600


def play(count: int) -> int:
    """Compare 6 runs with 6 in turns, the same `count` times, the others once; a row a class; 1 if one is wrong."""
    wrong = 0
    charkha("agent", "calibrate", "--topology", TOPOLOGY, "--transport", "roce", timeout_s=_SERIES_S)
    with raised():
        print(f"{'device':10} {'class':>8}  {'ratio':>6}  {'interval':>13}  {'tester':>6}  {'burst':>6}  verdict")
        for name, rules in DEVICES.items():
            for _ in range(count if name == "the same" else 1):
                with tempfile.TemporaryDirectory(prefix="charkha-compare-") as folder:
                    rows = _compare(Path(folder), rules)
                for row in rows:
                    print(f"{name:10} {_text(row)}  {'' if _is_right(name, row) else 'WRONG'}", flush=True)
                wrong += sum(not _is_right(name, row) for row in rows)
                wrong += name == "90 %" and not any(row["verdict"] == "slower" for row in rows)
    return int(wrong > 0)


def _compare(scratch: Path, rules: str) -> list[dict[str, Any]]:
    profiles = []
    for name, content in (("a", "[]"), ("b", rules)):
        profiles.append(scratch / f"{name}.yaml")
        profiles[-1].write_text(f"name: {name}\nrules: {content}\n")
    what = ("bench", "all_reduce", "-n", 2, "-b", "64K,1M,4M", "--iterations", 20, *IN_LAB)
    turns = ("--profiles", ",".join(map(str, profiles)), "--repeat", 6, "--out", scratch / "runs")
    charkha(*what, *turns, "--no-report", timeout_s=_SERIES_S)
    found = charkha("compare", scratch / "runs" / "a", scratch / "runs" / "b", "--json")
    rows: list[dict[str, Any]] = json.loads(found)["pairs"][0]["classes"]
    return rows


def _is_right(name: str, row: dict[str, Any]) -> bool:
    if name == "the same":
        return row["verdict"] not in ("slower", "faster")
    is_diluted = (row["tester_percent"] or 0) >= DILUTED_PERCENT or (row["burst_percent"] or 0) >= BURST_PERCENT
    return name != "97 %" or is_diluted or abs(row["ratio"] - RATIO_AT_97) <= ERROR


def _text(row: dict[str, Any]) -> str:
    size = "JCT" if row["collective"] == "jct" else f"{row['size_bytes'] >> 10} KiB"
    tester = "-" if row["tester_percent"] is None else f"{row['tester_percent']:.1f} %"
    burst = "-" if row["burst_percent"] is None else f"{row['burst_percent']:.1f} %"
    interval = f"{row['ratio_low']:.3f}-{row['ratio_high']:.3f}"
    return f"{size:>8}  {row['ratio']:6.3f}  {interval:>13}  {tester:>6}  {burst:>6}  {row['verdict']}"
