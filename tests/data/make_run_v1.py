"""Writes run-v1, the run folder that every later version must still read. Run once; never again after a release.

python -m tests.data.make_run_v1
"""

from pathlib import Path

from emulator.control.observations import FlowCounters, RankSummary
from emulator.control.parameter import Parameter
from emulator.results.run_folder.manifest import Exclusion, HostFacts, Manifest, Scaling, TimeAxis, TraceFacts, Trials
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from tests.support.runs import Row, collective, columns, pair

FOLDER = Path(__file__).parent / "run-v1"
ITERATION_NS = 1_000_000
MANIFEST = Manifest(
    run_id="20260102T030405-golden",
    created="2026-01-02T03:04:05+00:00",
    command_line=("charkha", "run", "golden", "--iterations", "3"),
    seed=42,
    trace=TraceFacts(path="golden", digest="ab" * 32, ranks=2, nodes=14, communication_nodes=6),
    topology={"name": "two-hosts", "source": "two-hosts.yaml", "hosts": [{"name": "h0"}, {"name": "h1"}]},
    dut={"vendor": "none", "model": "loopback"},
    hosts=(
        HostFacts(
            agent="agent-0",
            ranks=2,
            facts={"kernel": "6.1"},
            clock_offset_ns=-12,
            clock_error_ns=40,
            peak_rss_bytes=60_000_000,
            post_lateness_median_ns=31_000,
        ),
    ),
    parameters={"transport": Parameter("zmq"), "timeout": Parameter(30.0, "s"), "credits": Parameter(True)},
    scaling=Scaling(bytes=0.5, compute="replay", element_bytes=None),
    trials=Trials(attempted=4, warmup=1, included=2, excluded=(Exclusion(1, "a rank was late"),)),
    clock=TimeAxis(source="CLOCK_MONOTONIC of one host", offset_ns=12, error_ns=40),
    roofline_ns=100_000,
    sequential_roofline_ns=120_000,
    warnings={"dangling dependency dropped": 1},
    versions={"charkha": "0.1.0", "python": "3.11.0"},
)
FLOWS = [FlowCounters(0, 1, bytes=9_000, messages=8, retransmits=1), FlowCounters(1, 0, bytes=8_000, messages=7)]


def samples(iteration: int) -> list[Row]:
    """An all-reduce, an all-gather with early payload, a send and its receive."""
    start, later = iteration * ITERATION_NS, 1_000 * iteration
    fixed = {"iteration": iteration, "ideal_ns": 20_000}
    reduce = collective(
        [start, start + 3_000],
        [start + 90_000 + later, start + 95_000],
        node_id=2**63 + 7,
        name="allreduce: gradient",
        group="dp",
        size_bytes=4096,
        traced_ns=120_000,
        **fixed,
    )
    gather = collective(
        [start, start], [start + 50_000, start + 40_000], kind="all_gather", node_id=8, instance=1, **fixed
    )
    gather[1] |= {"early": True, "retransmits": 1}
    return [*reduce, *gather, *pair(start + 5, start + 9_000, instance=2, node_id=9, algorithm="direct", **fixed)]


def ranks(iteration: int) -> list[RankSummary]:
    """How the two ranks spent an iteration."""
    start = iteration * ITERATION_NS
    return [
        RankSummary(rank, start, start + 200_000 + 1_000 * iteration + rank, 80_000, 150_000, 60_000) for rank in (0, 1)
    ]


def write(folder: Path) -> None:
    """Write the folder; it must not exist."""
    with RunWriter(folder, MANIFEST) as writer:
        for iteration in (-1, 0, 1, 2):
            writer.add(RunTable.SAMPLES, columns(samples(iteration)))
            writer.add_iteration(iteration, ranks(iteration))
        writer.add_flows(FLOWS)


if __name__ == "__main__":
    write(FOLDER)
