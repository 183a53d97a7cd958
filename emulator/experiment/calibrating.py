"""What the tester alone can do, measured with its own runs: ranks in pairs, over loopback or cables."""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from emulator.cli.commands import bench
from emulator.controller.scratch import scratch_folder
from emulator.experiment.calibrated import deciding_parameters
from emulator.experiment.playing import play
from emulator.host.timer import TimerfdClock
from emulator.lab.labs import Labs
from emulator.planner.workloads.pairs import Pairs, pairs_workload
from emulator.run_folder.record import Run
from emulator.run_folder.schema import Part
from emulator.statistics.calibration import (
    CABLES,
    LOOPBACK,
    AgentClock,
    Calibration,
    TimerJitter,
    TransportCost,
)
from emulator.statistics.collectives import MERGE_COLUMNS, merge
from emulator.statistics.stats import percentile, variation
from emulator.statistics.summary import read_measured
from emulator.statistics.tester import find_ceiling, sent_meanwhile
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from emulator.trace.workload import build_workload
from emulator.wire.trace.generated import write_workload
from emulator.wire.trace.load import load_trace

COUNTS = {16: 40, 16 << 10: 20, 256 << 10: 12, 1 << 20: 8, 4 << 20: 4}
"""Bytes of a collective → how many of them, one after the other."""
ITERATIONS = 4
MOST_HOSTS = 16
RING_STEPS = 2
"""Of an all-reduce of two ranks."""
ALARMS, ALARM_NS = 1000, 500_000


def calibrate(
    topology: Topology | None, *, transports: Sequence[str], ranks: int | None, listening: Sequence[str] = ()
) -> Calibration:
    """Measure; takes some seconds a transport.

    Args:
        topology: whose MTU, transport parameters and number of hosts count; None: loopback.
        transports: by name.
        ranks: in pairs; None: one per host, or two per core.
        listening: options with which agents of the topology dial in, whose clocks are looked at; empty: no agent does.

    Raises:
        EmulatorError: as a run.
    """
    with scratch_folder() as scratch, _place(topology, ranks, scratch) as place:
        where, count, options = place
        costs = tuple(_cost(transport, count, options, scratch) for transport in transports)
        clocks = _clocks(topology, listening, scratch) if topology is not None and listening else ()
    return Calibration(
        created=datetime.datetime.now(datetime.UTC).astimezone().isoformat(timespec="seconds"),
        where=where,
        topology=None if topology is None else topology.source,
        topology_digest=None if topology is None else topology.digest,
        transports=costs,
        timer=measure_timer(),
        clocks=clocks,
    )


def can_be_cabled(topology: Topology) -> bool:
    """Whether its hosts are namespaces of this machine in a lab, so that cables between some tell what these can do."""
    kinds = {switch.kind for switch in topology.network.switches}
    return topology.network.is_drawn and not topology.agents and "physical" not in kinds


@contextmanager
def _place(topology: Topology | None, ranks: int | None, scratch: Path) -> Iterator[tuple[str, int, Sequence[str]]]:
    """(where, number of ranks, options of a run there)."""
    if topology is None or not can_be_cabled(topology) or os.geteuid() != 0:
        count = ranks or 2 * len(os.sched_getaffinity(0))
        yield LOOPBACK, count + count % 2, ()
        return
    count = ranks or min(len(topology.hosts), MOST_HOSTS)
    count += count % 2
    path = scratch / "cables.yaml"
    path.write_text(json.dumps(_cables(topology, count)))
    labs, lab_id = Labs(), f"calibrate-{os.getpid()}"
    labs.up(load_topology(path, ranks=0), lab_id=lab_id)
    try:
        yield CABLES, count, ("--topology", str(path), "--lab", lab_id)
    finally:
        labs.down(lab_id)


def _cables(topology: Topology, count: int) -> dict[str, object]:
    """A topology of pairs of hosts with a cable each."""
    hosts = [{"name": f"c{at}", "addresses": [f"198.18.{at >> 7}.{2 * (at & 127) + 1}"]} for at in range(count)]
    cable = {} if topology.link_mtu is None else {"mtu": topology.link_mtu}
    links = [{"endpoints": [f"c{at}:eth0", f"c{at + 1}:eth0"], **cable} for at in range(0, count, 2)]
    transport = {name: value for name, value in topology.transport.items() if "rate" not in name}
    return {"name": "cables", "hosts": hosts, "links": links} | ({"transport": transport} if transport else {})


def _cost(transport: str, ranks: int, options: Sequence[str], scratch: Path) -> TransportCost:
    args = _arguments(["-n", str(ranks), "--transport", transport, *options])
    run = _play(args, Pairs(ranks, tuple(COUNTS.items())), scratch / f"run-{transport}")
    samples = read_measured(run, Part.SAMPLES, [*MERGE_COLUMNS, "bytes_sent"])
    merged = merge(samples)
    step_bytes = {size: size // RING_STEPS for size in COUNTS}
    ceiling = find_ceiling(merged, sent_meanwhile(samples, merged), steps=RING_STEPS, step_bytes=step_bytes)
    return TransportCost(
        transport=transport,
        parameters=deciding_parameters(args),
        ranks=ranks,
        agents=len(run.manifest.hosts),
        rates=ceiling.rates,
        step_ns=ceiling.step_ns,
        message_ns=ceiling.step_ns / ranks,
        variation=variation(merged.cct_ns[merged.size_bytes == max(COUNTS)]),
    )


def _arguments(options: Sequence[str]) -> argparse.Namespace:
    """Those of `charkha bench`, which the run of a calibration is."""
    parser = argparse.ArgumentParser()
    bench.add_parser(parser.add_subparsers())
    fixed = ["bench", "all_reduce", "--algorithm", "all_reduce=ring", "--iterations", str(ITERATIONS)]
    args = parser.parse_args([*fixed, *options])
    args.report = False
    return args


def _play(args: argparse.Namespace, pairs: Pairs, folder: Path) -> Run:
    trace = folder.with_name(f"{folder.name}-trace")
    write_workload(pairs_workload(pairs), trace)
    loaded = load_trace(trace, ranks=pairs.ranks)
    named = replace(loaded, path=Path("calibrate"))
    return play(args, named, build_workload(loaded.traces, groups=loaded.groups), folder=folder)


def _clocks(topology: Topology, listening: Sequence[str], scratch: Path) -> tuple[AgentClock, ...]:
    """Of all agents of the topology, from a run of next to no bytes with one rank a host."""
    ranks = len(topology.hosts) + len(topology.hosts) % 2
    args = _arguments(["-n", str(ranks), "--topology", str(topology.source), *listening])
    run = _play(args, Pairs(ranks, ((min(COUNTS), 1),)), scratch / "clocks")
    return tuple(AgentClock(one.agent, one.clock_offset_ns, one.clock_error_ns) for one in run.manifest.hosts)


def measure_timer() -> TimerJitter:
    """How late alarms of this process's event loop are while nothing else is to do."""
    late = np.sort(asyncio.run(_overshoots()))
    return TimerJitter(
        alarms=len(late),
        p50_ns=int(percentile(late, 0.5) or 0),
        p99_ns=int(percentile(late, 0.99) or 0),
        max_ns=int(late[-1]),
    )


async def _overshoots() -> list[int]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    late: list[int] = []
    with TimerfdClock() as clock:
        begin = clock.now() + ALARM_NS

        def ring() -> None:
            late.append(clock.now() - (begin + len(late) * ALARM_NS))
            if len(late) == ALARMS:
                done.set_result(None)
            else:
                clock.call_at(begin + len(late) * ALARM_NS, ring)

        clock.call_at(begin, ring)
        await done
    return late
