"""A switch that drops and duplicates without counting: what receivers and senders say of it is what was planted.

Own nftables rules in the switch, unknown to Charkha, drop every 500th frame and duplicate every 487th. Flows count
packets of payload: acknowledgements that were hit are left out of what was planted.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from lab.benchmarks.verdicts.trials import IN_LAB, charkha, raised

SWITCH = "charkha-two-hosts-switch-sw0"
MOST_ERROR = 0.03
DROPS = """
table bridge planted {
  counter drops { }
  counter drops_payload { }
  chain forward { type filter hook forward priority 0; numgen inc mod 500 == 7 jump chosen; }
  chain chosen { counter name drops; meta length > 500 counter name drops_payload; drop; }
}
"""
COPIES = """
table netdev planted {
  counter copies { }
  counter copies_payload { }
  chain p0 { type filter hook egress device "p0" priority 0; meta mark != 0x77 numgen inc mod 487 == 7 jump copy_p0; }
  chain p1 { type filter hook egress device "p1" priority 0; meta mark != 0x77 numgen inc mod 487 == 7 jump copy_p1; }
  chain copy_p0 { counter name copies; meta length > 500 counter name copies_payload; meta mark set 0x77 dup to "p0"; }
  chain copy_p1 { counter name copies; meta length > 500 counter name copies_payload; meta mark set 0x77 dup to "p1"; }
}
"""
REMOVE = "".join(f"add table {one}\ndelete table {one}\n" for one in ("bridge planted", "netdev planted"))
CASES = {"clean": "", "drops": DROPS, "copies": COPIES, "drops and copies": DROPS + COPIES}


def play(count: int) -> int:
    """Play every case `count` times in one lab and print a row a run; 1 if a count is wrong."""
    wrong = 0
    with raised():
        print(f"{'switch':18} {'dropped':>8} {'flows lost':>10}  {'copied':>7} {'copies':>7}  frames_lost")
        for name, script in CASES.items():
            for _ in range(count):
                with tempfile.TemporaryDirectory(prefix="charkha-counts-") as folder:
                    wrong += not _trial(name, script, Path(folder) / "run")
    return int(wrong > 0)


def _trial(name: str, script: str, out: Path) -> bool:
    _nft(script, "-f", "-")
    try:
        charkha("bench", "all_reduce", "-n", 2, "-b", "4M", "-e", "4M", "--iterations", 10, "--warmup", 0,
                *IN_LAB, "--out", out, "--no-report")  # fmt: skip
        printed = json.loads(_nft("", "-j", "list", "counters"))["nftables"]
    finally:
        _nft(REMOVE, "-f", "-")
    planted = {one["counter"]["name"]: one["counter"]["packets"] for one in printed if "counter" in one}
    dropped, copied = planted.get("drops_payload", 0), planted.get("copies_payload", 0)
    totals: dict[str, Any] = json.loads(charkha("runs", "show", out, "--json"))["totals"]
    lost, copies = totals["lost_packets"], totals["counters"].get("copies", 0)
    (frames_lost,) = (one["lost"] for one in totals["device_frames"])
    is_right = _is_near(lost, dropped) and _is_near(copies, copied) and (frames_lost is None or frames_lost >= 0)
    verdict = "" if is_right else "WRONG"
    print(f"{name:18} {dropped:8,} {lost:10,}  {copied:7,} {copies:7,}  {frames_lost}  {verdict}", flush=True)
    return is_right


def _is_near(found: int, planted: int) -> bool:
    return abs(found - planted) <= max(MOST_ERROR * planted, 0)


def _nft(script: str, *words: str) -> str:
    command = ["ip", "netns", "exec", SWITCH, "nft", *words]
    return subprocess.run(command, input=script, capture_output=True, text=True, check=True).stdout
