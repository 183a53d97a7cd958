"""Runs of four ranks at a switch with recorded steps, made by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emulator.control.observations import FlowCounters
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.results.statistics.worst.worst_steps import WorstStep
from tests.support.runs import collective, columns, manifest, ranks

NETWORK = {"switches": [{"name": "sw0"}], "links": [{"ends": [f"h{n}:eth0", f"sw0:p{n}"]} for n in range(4)]}
TOPOLOGY = {
    "hosts": [{"name": f"h{n}", "interfaces": [{"name": "eth0"}]} for n in range(4)],
    "host_index": [0, 1, 2, 3],
    "interface_index": [0] * 4,
    "addresses": [f"198.18.0.{n}" for n in range(1, 5)],
    "network": NETWORK,
}
WORST = WorstStep(
    iteration=16,
    instance=3,
    collective="all_to_all",
    members=4,
    collective_bytes=1 << 20,
    lane=0,
    step=2,
    src=1,
    dst=2,
    source="h0:eth0",
    destination="h1:eth0",
    size_bytes=1 << 18,
    waited_for="payload",
    time_ns=551_000_000,
    above_median_ns=543_000_000,
    above_ideal_ns=541_000_000,
    qpn=19,
    source_port=49551,
    path="h0:eth0 - sw0 (p0 to p1) - h1:eth0",
    events={"retransmits": 1009, "timeouts": 1},
    device_drops=None,
)
POSTS, END = [0, 10, 20, 100], 1000
Step = Mapping[str, Any]


def step(src: int, dst: int, start: int, arrival: int | None, **other: Any) -> Step:
    """A transfer that was acknowledged 5 ns after it arrived."""
    late = None if arrival is None else arrival + 5
    usual = {"step": 0, "lane": 0, "size_bytes": 250, "post_ns": start, "acknowledged_ns": late}
    return {"src": src, "dst": dst, "start_ns": start, "arrival_ns": arrival, **usual, **other}


def run(
    folder: Path,
    steps: Sequence[Step],
    *,
    samples: Sequence[Any] | None = None,
    events: Sequence[FlowCounters] = (),
    readings: Sequence[tuple[int, int]] = (),
) -> Run:
    """Instance 7 in iteration 3 of a run of four ranks; readings are (time, frames that sw0 has dropped at p1)."""
    listed = collective(POSTS, [END] * 4, iteration=3, instance=7) if samples is None else samples
    with RunWriter(folder, manifest(topology=TOPOLOGY)) as writer:
        writer.add(RunTable.SAMPLES, columns(listed))
        writer.add_iteration(3, ranks((0, END), (0, END), (0, END), (0, END)))
        for number in (2, 3):
            writer.add_flow_events(number, events)
        names = sorted({name for one in steps for name in one})
        values = {name: [one.get(name) for one in steps] for name in names}
        writer.add(RunTable.STEPS, {"iteration": 3, "instance": 7} | values)
        for at_ns, value in readings:
            where = {"device": "sw0", "interface": "p1", "counter": "profile_drops"}
            writer.add(RunTable.COUNTERS, {"time_ns": [at_ns], "value": [value]} | where)
    return read_run(folder)
