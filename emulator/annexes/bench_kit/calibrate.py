"""`charkha agent calibrate`: what the tester alone can do, measured with its own runs over loopback or cables."""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from emulator.annexes.bench_kit.closure import closure_table, closure_tests
from emulator.cli.options import add_options, build, given, options_at
from emulator.cli.output import notify, print_json, print_tables
from emulator.cli.parser import at_least
from emulator.device.lab.labs import Labs
from emulator.errors import InputError
from emulator.experiment.play.play import play, prepare
from emulator.experiment.settle.calibration import deciding_parameters
from emulator.experiment.settle.testbed import topology_without_host
from emulator.experiment.settle.workload import load_job
from emulator.experiment.spec import parts
from emulator.experiment.spec.spec import Agents, Experiment, Job, Network, Observe, Pairs, Transport
from emulator.host.clock import TimerfdClock
from emulator.host.files import scratch_folder
from emulator.results.run_folder.places import check_file
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.calibration import (
    CABLES,
    FORMAT,
    LOOPBACK,
    AgentClock,
    Calibration,
    TimerJitter,
    TransportCost,
    default_path,
    to_json,
    write_calibration,
)
from emulator.results.statistics.method.descriptive import median, percentile, student_t_quantile, variation
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, MergedSamples, merge
from emulator.results.statistics.samples.measured_rows import read_measured
from emulator.results.statistics.samples.transfers import FloatArray, bytes_in_flight
from emulator.results.statistics.tester_model import TesterModel
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from emulator.trace.meaning.model import IntArray
from emulator.transports.registry import EVERYWHERE
from emulator.units import NS_PER_S, format_duration
from emulator.views.columns.columns import Column, bold, explain
from emulator.views.columns.figures import NONE, duration_cell, number_cell, rate_cell
from emulator.views.terminal.table import FittedTable, facts_grid

if TYPE_CHECKING:
    from emulator.cli.parser import Subparsers

COUNTS = {16: 40, 16 << 10: 20, 256 << 10: 12, 1 << 20: 8, 4 << 20: 4}
"""Bytes of a collective → how many of them, one after the other."""
ITERATIONS = 4
MOST_HOSTS = 16
RING_STEPS = 2
"""Of an all-reduce of two ranks."""
_MIN_TRANSFER_SHARE = 0.5
"""A rate needs bytes that take at least this fraction of the time of the steps; below it, their noise dominates."""
ALARMS, ALARM_NS = 1000, 500_000
LEAST_RUNS, MOST_RUNS, NARROW = 3, 6, 0.1
"""Runs of a calibration: until the 95 % intervals of the times of a step and of a byte end at most 10 % above their
means, but no more than 6."""
STEADY = 0.25
"""Largest coefficient of variation of large collectives on an idle machine."""


def calibrate(
    topology: Topology | None,
    *,
    transports: Sequence[str],
    ranks: int | None,
    agents: Agents | None = None,
    closure: bool = False,
) -> Calibration:
    """Measure the tester; takes some seconds per transport.

    Args:
        topology: its MTU, transport parameters and number of hosts count; None: loopback.
        transports: by name.
        ranks: in pairs; None: one per host, or two per core.
        agents: how agents of the topology connect, to look at their clocks; None: none does.
        closure: also plant faults in a lab, see closure.py.

    Raises:
        InputError: closure tests without a topology of a lab, or without root.
        EmulatorError: as a run.
    """
    is_lab = topology is not None and can_be_cabled(topology) and os.geteuid() == 0
    if closure and not is_lab:
        raise InputError("--closure: faults are planted in a lab: name the --topology of one, and run as root")
    with scratch_folder() as scratch, _testbed(topology, ranks, scratch) as bed:
        where = bed.where
        costs = tuple(_cost(name, bed, scratch) for name in transports)
        clocks = _clocks(topology, agents, scratch) if topology is not None and agents is not None else ()
    with scratch_folder() as scratch:
        planted = closure_tests(topology, scratch) if closure and topology is not None else ()
    return Calibration(
        created=datetime.datetime.now(datetime.UTC).astimezone().isoformat(timespec="seconds"),
        where=where,
        topology=None if topology is None else topology.source,
        topology_digest=None if topology is None else topology.digest,
        transports=costs,
        timer=measure_timer(),
        clocks=clocks,
        closure=planted,
    )


def can_be_cabled(topology: Topology) -> bool:
    """Whether its hosts are namespaces of this machine in a lab: cables between two of them show what they can do."""
    kinds = {switch.kind for switch in topology.network.switches}
    return topology.network.is_drawn and not topology.agents and "physical" not in kinds


def doubts(topology: Topology | None, made: Calibration) -> Iterator[str]:
    """Why a calibration may not describe this tester, a sentence each.

    Args:
        topology: that it was made for; None: loopback.
        made: the calibration.
    """
    if topology is not None and can_be_cabled(topology) and made.where == LOOPBACK:
        yield (
            "measured over loopback, where the kernel does not segment frames, so rates are too high: "
            "run as root to measure between network namespaces, as in a lab"
        )
    for one in made.transports:
        if one.variation is not None and one.variation > STEADY:
            percent = number_cell(100 * one.variation)
            yield f"{one.transport} varies by {percent} %: other programs use this machine; calibrate when it is idle"
    for test in made.closure:
        if test.planted is not None and not test.is_inside:
            yield f"{test.name}: what was planted was not found{f' ({test.why})' if test.why else ' within U'}"


@dataclass(frozen=True, slots=True)
class _Bed:
    """Where a calibration runs.

    Attributes:
        where: LOOPBACK or CABLES.
        ranks: in pairs.
        network: of a run without a limit of rate: what the tester can move.
        paced: of a run whose ports have the rate of the topology's, so that it paces and has congestion control as runs
            there do: what a step costs. None: without rates.
    """

    where: str
    ranks: int
    network: Network
    paced: Network | None = None


@contextmanager
def _testbed(topology: Topology | None, ranks: int | None, scratch: Path) -> Iterator[_Bed]:
    if topology is None or not can_be_cabled(topology) or os.geteuid() != 0:
        count = ranks or 2 * len(os.sched_getaffinity(0))
        yield _Bed(LOOPBACK, count + count % 2, Network())
        return
    count = ranks or min(len(topology.hosts), MOST_HOSTS)
    count += count % 2
    rates = [port.rate_bps for host in topology.hosts for port in host.interfaces if port.rate_bps]
    with ExitStack() as labs:
        free = labs.enter_context(_cabled(topology, count, scratch, "free", None))
        paced = labs.enter_context(_cabled(topology, count, scratch, "paced", min(rates))) if rates else None
        yield _Bed(CABLES, count, free, paced)


@contextmanager
def _cabled(topology: Topology, count: int, scratch: Path, name: str, rate_bps: int | None) -> Iterator[Network]:
    """A lab of cables; rate_bps: of their ends."""
    path = scratch / f"{name}.yaml"
    path.write_text(json.dumps(_cables(topology, count, rate_bps)))
    labs, lab_id = Labs(), f"calibrate-{os.getpid()}-{name}"
    labs.up(load_topology(path, ranks=0), lab_id=lab_id)
    try:
        yield Network(topology=str(path), lab=lab_id)
    finally:
        labs.down(lab_id)


def _cables(topology: Topology, count: int, rate_bps: int | None) -> dict[str, object]:
    """A topology of pairs of hosts, each pair with a cable between."""
    hosts = [{"name": f"c{at}", "addresses": [f"198.18.{at >> 7}.{2 * (at & 127) + 1}"]} for at in range(count)]
    cable: dict[str, object] = {} if topology.link_mtu is None else {"mtu": topology.link_mtu}
    cable |= {} if rate_bps is None else {"rate": f"{rate_bps}bit"}
    links = [{"endpoints": [f"c{at}:eth0", f"c{at + 1}:eth0"], **cable} for at in range(0, count, 2)]
    transport = {name: value for name, value in topology.transport.items() if "rate" not in name}
    return {"name": "cables", "hosts": hosts, "links": links} | ({"transport": transport} if transport else {})


def _experiment(
    pairs: Pairs, network: Network, *, transport: str | None = None, agents: Agents | None = None
) -> Experiment:
    job = Job(pairs=pairs, iterations=ITERATIONS, algorithms={"all_reduce": "ring"})
    place = Network(topology=network.topology, lab=network.lab, transport=Transport(name=transport))
    return Experiment(jobs=(job,), network=place, agents=agents or Agents(), observe=Observe(report=False))


def _cost(transport: str, bed: _Bed, scratch: Path) -> TransportCost:
    ranks = bed.ranks
    experiment = _experiment(Pairs(ranks=ranks, counts=tuple(COUNTS.items())), bed.network, transport=transport)
    step_bytes = {size: size // RING_STEPS for size in COUNTS}
    found: list[TesterModel] = []
    largest: list[IntArray] = []
    while not _is_enough(found):
        with load_job(experiment.job) as job, prepare(experiment, [job]) as prepared:
            run = prepared.play(scratch / f"run-{transport}-{len(found)}").run
            parameters = deciding_parameters(prepared.runs[0].settled.resolved)
        samples = read_measured(run, RunTable.SAMPLES, [*MERGE_COLUMNS, "bytes_sent"])
        merged = merge(samples)
        sent = bytes_in_flight(samples, merged)
        model = fit_tester_model(merged, sent, steps=RING_STEPS, step_bytes=step_bytes)
        if bed.paced is not None:
            folder = scratch / f"paced-{transport}-{len(found)}"
            model = replace(model, step_ns=_paced_step_ns(transport, ranks, bed.paced, folder))
        found.append(model)
        largest.append(merged.cct_ns[merged.size_bytes == max(COUNTS)])
    ceiling = slowest_likely(found)
    return TransportCost(
        transport=transport,
        parameters=parameters,
        ranks=ranks,
        agents=len(run.manifest.hosts),
        rates=ceiling.rates,
        step_ns=ceiling.step_ns,
        message_ns=ceiling.step_ns / ranks,
        variation=variation(np.concatenate(largest)),
    )


def fit_tester_model(
    merged: MergedSamples, machine_bytes: FloatArray, *, steps: int, step_bytes: Mapping[int, int]
) -> TesterModel:
    """Derive the model from the run of a calibration.

    Args:
        merged: its collectives, each of `steps` steps; the smallest size has almost no bytes.
        machine_bytes: for each of them, see `bytes_in_flight`.
        step_bytes: size of a collective → bytes that a rank sends in a step. A size that takes hardly longer than the
            smallest one gives no rate.
    """
    smallest = min(step_bytes)
    step_ns = float(median(merged.cct_ns[merged.size_bytes == smallest]) or 0) / steps
    rates: list[tuple[int, float]] = []
    for size in sorted(step_bytes.keys() - {smallest}):
        rows = merged.size_bytes == size
        transfer_ns = float(median(merged.cct_ns[rows]) or 0) - steps * step_ns
        if transfer_ns > _MIN_TRANSFER_SHARE * steps * step_ns or size == max(step_bytes):
            rate = float(median(machine_bytes[rows]) or 0) / max(transfer_ns, 1) * NS_PER_S
            rates.append((step_bytes[size], rate))
    return TesterModel(rates, step_ns)


def slowest_likely(models: Sequence[TesterModel]) -> TesterModel:
    """What a run may find of several calibrations: the slow end of the 95 % interval of a further one (Student's t).

    Args:
        models: one per calibration. A size counts if all of them have a rate for it.
    """
    slow = [(size, 1e9 / _slow_end(times)) for size, times in _byte_times_ns(models).items()]
    return TesterModel(sorted(slow), _slow_end([one.step_ns for one in models]))


def uncertainty(models: Sequence[TesterModel]) -> float:
    """How far the 95 % interval of the mean reaches, as a share of it: of a step or of a byte, whichever is further."""
    measured = [[one.step_ns for one in models], *_byte_times_ns(models).values()]
    return max(_reach(values) / float(np.mean(values)) for values in measured)


def _byte_times_ns(models: Sequence[TesterModel]) -> dict[int, list[float]]:
    """Bytes of a step → time of a byte in each calibration, for sizes that all of them have."""
    shared = set.intersection(*({size for size, _ in one.rates} for one in models))
    return {size: [1e9 / max(rate, 1.0) for one in models for at, rate in one.rates if at == size] for size in shared}


def _reach(values: Sequence[float], *, further: int = 0) -> float:
    """Half the 95 % interval of their mean, or if `further` is 1, of one more value; 0 of a single one."""
    if len(values) < 2:
        return 0.0
    spread: float = float(np.std(values, ddof=1)) * math.sqrt(further + 1 / len(values))
    return student_t_quantile(0.975, len(values) - 1) * spread


def _slow_end(values: Sequence[float]) -> float:
    return float(np.mean(values)) + _reach(values, further=1)


def _paced_step_ns(transport: str, ranks: int, network: Network, folder: Path) -> float:
    """The time of a step of next to no bytes where ports have a rate, ns."""
    smallest = min(COUNTS)
    pairs = Pairs(ranks=ranks, counts=((smallest, COUNTS[smallest]),))
    run = play(_experiment(pairs, network, transport=transport), folder).run
    merged = merge(read_measured(run, RunTable.SAMPLES, MERGE_COLUMNS))
    return float(median(merged.cct_ns) or 0) / RING_STEPS


def _is_enough(found: Sequence[TesterModel]) -> bool:
    """Whether the tester's times are known, or were measured often enough."""
    return len(found) >= LEAST_RUNS and (len(found) == MOST_RUNS or uncertainty(found) <= NARROW)


def _clocks(topology: Topology, agents: Agents, scratch: Path) -> tuple[AgentClock, ...]:
    """Of all agents of the topology, from a run of next to no bytes with one rank per host."""
    ranks = len(topology.hosts) + len(topology.hosts) % 2
    pairs = Pairs(ranks=ranks, counts=((min(COUNTS), 1),))
    experiment = _experiment(pairs, Network(topology=topology.source), agents=agents)
    run = play(experiment, scratch / "clocks").run
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


_EXAMPLE = """example:
  charkha agent calibrate --topology topologies/two-hosts-switch.yaml

Later runs on that topology mark collectives whose time the tester itself determines.
docs/calibrate.md has the details.
"""


OPTIONS = [
    one for one in options_at("network.topology", "network.allow_networks", "agents") if one.path != "agents.count"
]


def add_parser(subparsers: Subparsers) -> None:
    """Add `calibrate` to the command line."""
    parser = subparsers.add_parser(
        "calibrate",
        description="Measure the limits of the tester without a device under test, for comparison with later runs.",
        epilog=_EXAMPLE,
    )
    add_options(parser, OPTIONS)
    parser.add_argument("--transport", choices=EVERYWHERE, action="append", help="repeatable (default: all)")
    parser.add_argument(
        "--ranks", metavar="N", type=at_least(2, most=1024), help="default: one per host, or two per core"
    )
    parser.add_argument("--calibration", metavar="FILE", type=Path, help="file to write (default: where run looks)")
    parser.add_argument(
        "--closure",
        action="store_true",
        help="plant a rate, losses, an outage and a delay in a lab, and find them again",
    )
    parser.add_argument("--json", action="store_true", help="print the content of the file as JSON")
    parser.add_explain("emulator.annexes.bench_kit.calibrate", "emulator.annexes.bench_kit.closure")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Measure, write the file, print it.

    Raises:
        EmulatorError: bad input, a failed run, a host that lacks something.
    """
    part = parts.merge({"job": {"trace": {"path": ""}}}, given(args, OPTIONS))
    experiment = build(part, OPTIONS)
    topology = None if experiment.network.topology is None else topology_without_host(experiment, ranks=0)
    if args.calibration is not None:
        check_file(args.calibration, "--calibration", mark=FORMAT, makes_folder=True)
    made = calibrate(
        topology,
        transports=args.transport or EVERYWHERE,
        ranks=args.ranks,
        agents=None if experiment.agents.listen is None else experiment.agents,
        closure=args.closure,
    )
    path = args.calibration or default_path(made.topology_digest)
    write_calibration(path, made)
    for problem in doubts(topology, made):
        notify(problem)
    if args.json:
        print_json(to_json(made) | {"file": str(path)})
    else:
        print_tables(render(made), f"Calibration: {path}")
    return 0


_TRANSPORTS: tuple[Column[TransportCost], ...] = (
    Column("transport", "transport of the agents", key="transport", is_number=False),
    Column("ranks", "ranks, which exchange data in pairs", key="ranks"),
    Column("agents", "agent processes", key="agents"),
    Column(
        "rate\nGB/s",
        "payload of all ranks together with large messages",
        unit="1e9 bytes per second",
        key="rate_bytes_per_s",
        show=rate_cell,
        style=bold,
    ),
    Column("step", "time of a step with almost no payload", key="step_ns", show=duration_cell),
    Column("per\nmessage", "step / ranks: cost of a message", key="message_ns", show=duration_cell),
    Column(
        "variation",
        "coefficient of variation of the largest collectives",
        cell=lambda one: NONE if one.variation is None else f"{number_cell(100 * one.variation)} %",
    ),
)
EXPLAIN = explain(_TRANSPORTS, title="What the tester achieves without a device under test:")


def render(made: Calibration) -> RenderableType:
    """The calibration for a console."""
    about = f"The tester alone, over {made.where}: payload of all ranks together, in pairs"
    table = FittedTable(_TRANSPORTS, made.transports)
    closure: list[RenderableType] = [Text(), closure_table(made.closure)] if made.closure else []
    return Group(Text(about, style="bold"), Text(), table, Text(), facts_grid(_lines(made)), *closure)


def _lines(made: Calibration) -> Iterator[tuple[str, str]]:
    timer = made.timer
    tail = f"p99 {format_duration(timer.p99_ns)}, max {format_duration(timer.max_ns)} of {timer.alarms:,} alarms"
    yield "Timer", f"{format_duration(timer.p50_ns)} late at the median, {tail}"
    for clock in made.clocks:
        error = format_duration(clock.error_ns) if clock.error_ns else "none: it shares the controller's clock"
        yield "Clock", f"{clock.agent}: offset {format_duration(clock.offset_ns)}, error {error}"
