"""How long `charkha runs list` takes over many run folders, from the start of the command to its last line.

    python -m lab.benchmarks.run_listing [--runs N] [--ranks N]

Makes run folders as a run one in ranks leaves them (manifests of real size, small tables), lists them three times
and prints the median. Reads nothing but manifests, and folders that were just written: the page cache is warm.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from emulator.control.parameter import Parameter
from emulator.controller.recording.topology_description import describe_topology
from emulator.results.run_folder.manifest import MANIFEST, HostFacts, Manifest, TraceFacts, Trials, to_json
from emulator.results.run_folder.writer import RunWriter
from emulator.topology.model import default_loopback

_PARAMETERS = 30


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--ranks", type=int, default=64)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="charkha-runs-") as root:
        size = _make(Path(root), args.runs, args.ranks)
        times = [_list(Path(root), args.runs) for _ in range(3)]
    print(f"{args.runs} runs of {args.ranks} ranks, manifests of {size:,} bytes")
    print(f"charkha runs list: {statistics.median(times):.2f} s median of {', '.join(f'{one:.2f}' for one in times)}")


def _make(root: Path, runs: int, ranks: int) -> int:
    """Bytes of a manifest."""
    first = root / "run-0000"
    with RunWriter(first, _manifest(ranks)) as writer:
        writer.flush()
    for number in range(1, runs):
        folder = root / f"run-{number:04}"
        shutil.copytree(first, folder)
        manifest = replace(_manifest(ranks), run_id=str(number), status="complete")
        (folder / MANIFEST).write_text(to_json(manifest))
    return (first / MANIFEST).stat().st_size


def _manifest(ranks: int) -> Manifest:
    return Manifest(
        run_id="0",
        created="2026-01-02T03:04:05+00:00",
        command_line=("charkha", "run", "trace"),
        seed=0,
        trace=TraceFacts(path="trace", digest="00" * 32, ranks=ranks, nodes=1000, communication_nodes=100),
        topology=describe_topology(default_loopback(ranks)),
        hosts=tuple(HostFacts(f"agent-{n}", ranks=ranks // 2, facts={"kernel": "6.1", "pid": "1"}) for n in range(2)),
        parameters={f"roce.parameter_{n}": Parameter(n, "ns") for n in range(_PARAMETERS)},
        trials=Trials(attempted=6, warmup=1, included=5),
    )


def _list(root: Path, runs: int) -> float:
    """Seconds of the whole command."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "emulator", "runs", "list", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    took = time.perf_counter() - begin
    listed = [line for line in done.stdout.splitlines() if line.split()[-1:] == ["complete"]]
    assert len(listed) == runs, "not every run was listed"
    return took


if __name__ == "__main__":
    main()
