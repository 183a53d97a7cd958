"""Two jobs on one switch: what it counted is what the jobs counted, to the frame."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.session import StoredSession, load_session
from emulator.results.statistics.method.descriptive import median
from emulator.results.statistics.samples.iterations import iteration_durations
from tests.support.command import charkha, succeed
from tests.support.full import measures
from tests.support.namespaces import Namespace, captured
from tests.support.star_lab import Lab, raised, star

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow]
SHARED_PORT = "p2"
"""Of the switch, towards h2, where both jobs have a rank."""


@pytest.fixture
def lab(lab_host: None, tmp_path: Path) -> Iterator[Lab]:
    with raised(tmp_path, star(3, rate="50Mbit", mtu=4200)) as made:
        yield made


def play(lab: Lab, size: str, *options: object, iterations: int, second: dict[str, object]) -> StoredSession:
    """Jobs a and b, between h2 and a host of their own."""
    sweep = {"sweep": {"collective": "send_recv", "ranks": 2, "sizes": [size]}, "iterations": iterations}
    jobs = [{**sweep, "name": "a", "hosts": ["h0", "h2"]}, {**sweep, "name": "b", "hosts": ["h1", "h2"], **second}]
    window = {"options": {"window_bytes": "64K"}}  # little waits in the queue of the shared port: nothing is dropped
    network = {"topology": "lab.yaml", "lab": lab.id, "transport": window}
    spec = {"jobs": jobs, "network": network, "observe": {"report": False}}
    (lab.folder / "s.yaml").write_text(json.dumps(spec))
    succeed("run", "-f", "s.yaml", "--out", "s", *options, cwd=lab.folder, timeout_s=200)
    return load_session(lab.folder / "s")


def frames_of(run: Run) -> dict[tuple[str, str], int]:
    """Frames with data that each address sent another."""
    addresses = run.manifest.topology["addresses"]
    found: Counter[tuple[str, str]] = Counter()
    for row in run.table(RunTable.FLOWS, ["src", "dst", "packets"]).to_pylist():
        found[addresses[row["src"]], addresses[row["dst"]]] += row["packets"]
    return found


def counted(run: Run, port: str, *counters: str) -> int:
    """What a port of the switch counted during the run."""
    series: dict[str, list[int]] = {}
    for row in run.table(RunTable.COUNTERS).to_pylist():
        if (row["device"], row["interface"]) == ("sw0", port) and row["counter"] in counters:
            series.setdefault(row["counter"], []).append(row["value"])
    return sum(readings[-1] - readings[0] for readings in series.values())


def test_the_switch_counts_the_frames_of_both_jobs_and_no_others(lab: Lab) -> None:
    switch = Namespace(f"charkha-{lab.id}-sw0")
    with captured(switch, SHARED_PORT, lab.folder / "port.pcap") as capture:
        session = play(lab, "256K", iterations=3, second={"pace": "continuous", "start": "30ms"})
    assert capture.dropped == 0
    audit = json.loads(charkha("runs", "audit", "port.pcap", "--json", cwd=lab.folder).stdout)
    on_wire: Counter[tuple[str, str]] = Counter()
    for flow in audit["flows"]:
        on_wire[flow["source"], flow["destination"]] += flow["data_frames"]
    first, second = (frames_of(run) for run in session.jobs.values())
    assert not first.keys() & second.keys()
    for run in session.jobs.values():
        assert counted(run, SHARED_PORT, "rx_packets", "tx_packets") == audit["total"]["packets"]
        dropped = counted(run, SHARED_PORT, "qdisc_drops")  # before they were captured
        assert sum((first | second).values()) == sum(on_wire.values()) + dropped
    for pair, frames in (first | second).items():
        assert on_wire[pair] == frames or (dropped and on_wire[pair] < frames)


@measures
def test_two_equal_jobs_at_one_port_take_twice_as_long(lab: Lab) -> None:
    session = play(lab, "4M", "--solo", "--pace", "continuous", iterations=10, second={})
    times = {
        (kind, name): median(np.array(list(iteration_durations(run.table(RunTable.ITERATIONS), run.manifest).values())))
        for kind, runs in (("solo", session.solo), ("shared", session.jobs))
        for name, run in runs.items()
    }
    for name in session.jobs:
        assert times["shared", name] / times["solo", name] == pytest.approx(2, rel=0.01)
        windows = [
            {host.agent: host.transport["window"] for host in run.manifest.hosts}
            for run in (session.solo[name], session.jobs[name])
        ]
        assert windows[0] == windows[1]
