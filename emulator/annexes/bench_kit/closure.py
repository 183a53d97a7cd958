"""Closure tests of `charkha agent calibrate --closure`: plant a known fault in a lab, measure it, compare.

Two hosts at one switch of the kind of the topology's switches, with its MTU and its slowest port's rate. Faults are
those that users have: rules of a firmware profile, and events of a run spec.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from msgspec.structs import replace

from emulator.annexes.bench_kit.delay_line import LEAST_US, delay_line
from emulator.annexes.bench_kit.port_stamps import port_stamps
from emulator.device.lab.labs import Labs
from emulator.device.lab.model import BRIDGE, Node
from emulator.device.lab.shaping import slowed
from emulator.errors import InputError
from emulator.experiment.play.play import play
from emulator.experiment.spec.event_spec import Event
from emulator.experiment.spec.spec import Device, Experiment, Job, Network, Observe, Sweep, Transport
from emulator.planner.network.header_overhead import roce_overhead, roce_path_mtu
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.calibration import ClosureTest
from emulator.results.statistics.class_summary import summarise_classes
from emulator.results.statistics.metric import Unit
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, merge
from emulator.results.statistics.samples.measured_rows import read_measured
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.uncertainty import COVERAGE_FACTOR, STAMP, Budget, Sources, repeat_of
from emulator.roce.connection.send_queue import LONGEST_TIMEOUT_FACTOR
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from emulator.trace.meaning.model import IntArray
from emulator.units import BITS_PER_BYTE, NS_PER_MS
from emulator.views.columns.columns import Column, bold, explain
from emulator.views.columns.figures import NONE
from emulator.views.terminal.table import FittedTable
from emulator.views.verdict_text import metric_cell

PORT = "sw0:p1"
SHARE, EVERY, OUTAGE_MS, HELD_US = 50, 50, 200, 200
"""Planted: percent of the port's rate, one data frame of so many, how long the link is down and how much longer a
frame waits."""
QUEUE, PATIENT = "64M", 19
"""Of the port that is slowed: nothing is dropped, and no time-out comes (2.1 s) while frames wait in it."""
FASTEST_BPS = 10**9
"""Ports of the lab are not faster: a lab that is busy forwarding measures itself."""
ITERATIONS, ITERATION_S = 20, 0.25
TIMEOUT_EXPONENT = 12
"""Time-outs of 17 ms, stretched to 67 ms: seven retries outlast the outage."""
LOADS = (0, 50, 100)
"""Percent of the cores that other work uses while a rate is measured."""
SMALL_ITERATIONS, WARMUP = 200, 1
"""Of messages of two packets; collectives before those that are measured."""
NOT_SPLIT, NOT_SEEN = "the network's part is not known", "not planted: no message was seen at the switch's ports"


def closure_tests(topology: Topology, scratch: Path) -> tuple[ClosureTest, ...]:
    """Plant and measure; takes one to two minutes.

    Raises:
        InputError: the topology states no rate.
        EmulatorError: as a run.
    """
    rates = [port.rate_bps for host in topology.hosts for port in host.interfaces if port.rate_bps]
    if not rates:
        raise InputError("--closure: the topology has no rate to plant a share of: give its links a rate")
    rate_bps = min(*rates, FASTEST_BPS)
    with closure_bed(topology, rate_bps, scratch) as bed:
        return (*map(bed.rate, LOADS), bed.loss(), bed.outage(), bed.delay(), bed.stamps())


@contextmanager
def closure_bed(topology: Topology, rate_bps: int, scratch: Path) -> Iterator[ClosureBed]:
    """A lab of two hosts at one switch, as that of a topology, in which faults are planted.

    Args:
        topology: its kind of switch and its MTU count.
        rate_bps: of the links.
        scratch: folder for the runs.
    """
    kind = next((one.kind for one in topology.network.switches if one.kind != "physical"), "bridge")
    link: dict[str, object] = {"rate": f"{rate_bps}bit"} | (
        {} if topology.link_mtu is None else {"mtu": topology.link_mtu}
    )
    document: dict[str, object] = {
        "name": "closure",
        "hosts": [{"name": f"h{at}", "per_rank": f"198.18.{at + 1}.0/24"} for at in range(2)],
        "switches": [{"name": "sw0", "kind": kind}],
        "links": [{"endpoints": [f"h{at}:eth0", f"sw0:p{at}"], **link} for at in range(2)],
        "dut": {"kind": "switch", "nodes": ["sw0"]},
    }
    path, lab_id = scratch / "closure.yaml", f"closure-{os.getpid()}"
    path.write_text(json.dumps(document))
    labs = Labs()
    state = labs.up(load_topology(path, ranks=0), lab_id=lab_id)
    (switch,) = (one for one in state.design.nodes if not one.is_host)
    try:
        network = Network(topology=str(path), lab=lab_id, transport=Transport(name="roce"))
        yield ClosureBed(network, rate_bps, scratch, switch)
    finally:
        labs.down(lab_id)


class ClosureBed:
    """The lab, and the runs in it."""

    def __init__(self, network: Network, rate_bps: int, scratch: Path, switch: Node) -> None:
        self._network, self._rate_bps, self._scratch, self.switch = network, rate_bps, scratch, switch
        self._runs = 0

    def rate(self, load: int = 0, *, share: int = SHARE) -> ClosureTest:
        """A port that sends at a share of its rate, in percent: the network's part of broadcasts that cross it.

        One way alone: acknowledgements do not wait behind payload, and the queue of the port never runs dry.

        Args:
            load: percent of the cores that other work uses meanwhile.
            share: of the rate, percent.
        """
        size = self._lasting(ITERATION_S * share / 100)
        with busy(load):
            summary = summarise(self.run_slowed(share, size))
        name = f"rate, {load} % other work" if load else "rate"
        (one,) = summary.classes
        part = one if one.network is None else one.network
        planted, budget = share / (1 - self._burst_bytes / size), part.uncertainty.get("ideal_percent")
        if budget is None:
            return ClosureTest(name, Unit.PERCENT.value, planted, None, None, "no rate was measured")
        return ClosureTest(name, Unit.PERCENT.value, planted, budget.value, budget.expanded, budget.why)

    @property
    def _burst_bytes(self) -> int:
        """Payload that a port that is slowed passes at once after a pause."""
        port = self.switch.port("p1")
        overhead = roce_overhead(port.mtu)
        return 0 if port.shaping is None else int(slowed(port.shaping).burst_bytes / overhead.factor)

    def run_slowed(self, share: int, size: int, *, iterations: int = ITERATIONS) -> Run:
        """A run of broadcasts of `size` bytes through a port that sends at a share of its rate, in percent."""
        rule = f"{{name: planted, shape: {{rate: {share} %, queue: {QUEUE}}}, port: '{PORT}'}}"
        return self.play(
            iterations,
            size,
            collective="broadcast",
            profile=self._profile(f"rules: [{rule}]"),
            options={"qp_timeout": PATIENT},
        )

    def loss(self, *, every: int = EVERY) -> ClosureTest:
        """Every so many data frames one: those that the rule dropped, and those that the agents say did not arrive."""
        rule = f"{{name: planted, drop: {{every: {every}}}, opcode: data, port: '{PORT}'}}"
        size = self._lasting(0.2 * ITERATION_S)
        totals = summarise(self.play(2, size, profile=self._profile(f"rules: [{rule}]"))).totals
        planted, found = totals.dut.get("profile_drops", 0), totals.lost_packets
        return ClosureTest("loss", Unit.COUNT.value, planted, found, 0.0, "" if planted else "no frame met the rule")

    def outage(self, *, milliseconds: int = OUTAGE_MS, at_ms: int = 100) -> ClosureTest:
        """A link that is down: how long by the kernel, and how long no payload came.

        A queue pair sends again when its next timer fires, so what it sees lasts longer, by up to that.
        """
        down = Event(at=f"{at_ms}ms", port=PORT, down=f"{milliseconds}ms")
        options = {"qp_timeout": TIMEOUT_EXPONENT}
        summary = summarise(self.play(1, self._lasting(ITERATION_S), events=(down,), options=options))
        (found,) = summary.events
        if found.outage_ns is None or found.event.lasted_ns is None:
            planted = milliseconds * NS_PER_MS
            return ClosureTest("outage", Unit.NS.value, planted, None, None, found.why or "not found")
        timer_ns = LONGEST_TIMEOUT_FACTOR * (4096 << TIMEOUT_EXPONENT)
        errors = (found.event.begin_error_ns, found.event.end_error_ns, found.outage_error_ns)
        bounds = [timer_ns / 2, *(float(one or 0) for one in errors)]
        # The wait for the timer is between nothing and all of it: half of it is taken off, and the other half is ±.
        standard = math.hypot(*bounds) / math.sqrt(3)
        value = found.outage_ns - timer_ns / 2
        return ClosureTest("outage", Unit.NS.value, found.event.lasted_ns, value, COVERAGE_FACTOR * standard, "")

    def delay(self, *, held_us: int = HELD_US) -> ClosureTest:
        """A switch that holds frames of one direction longer: the difference of the network's parts with and without.

        What it really holds them for is what the kernel stamps at its ports say, of other messages of the same runs.
        """
        if self.switch.kind != BRIDGE:
            why = f"not planted: the switch is {self.switch.kind}, and only a bridge's place can be taken"
            return ClosureTest("delay", Unit.NS.value, None, None, None, why)
        sides = []
        for held in (0, held_us):
            with delay_line(self.switch.namespace, self._devices, (LEAST_US + held, LEAST_US)):
                sides.append(self._small())
        return delay_between(*sides)

    def stamps(self) -> ClosureTest:
        """Time stamps of the agents' kernels against those of the kernel at the ports of the switch, beside the agents.

        Those at the ports leave out both cables, which take microseconds.
        """
        small = self._small()
        planted, budget = _median(small.crossing_ns), small.found
        if planted is None or budget is None:
            why = NOT_SEEN if planted is None else NOT_SPLIT
            return ClosureTest("stamps", Unit.NS.value, planted, None, None, why)
        return ClosureTest("stamps", Unit.NS.value, planted, budget.value, budget.expanded, budget.why)

    @property
    def _devices(self) -> tuple[str, str]:
        return self.switch.port("p0").device, self.switch.port("p1").device

    def _small(self) -> Crossings:
        """Broadcasts of two packets.

        One packet alone would be held by the receiving kernel until a timer fires, in case that more come.
        """
        size = 2 * roce_path_mtu(self.switch.port("p0").mtu)
        with port_stamps(self.switch.namespace, self._devices) as stamps:
            run = self.play(SMALL_ITERATIONS, size, collective="broadcast")
            crossing_ns = np.array(stamps.crossing_ns()[WARMUP:], np.int64)
        samples = read_measured(run, RunTable.SAMPLES, MERGE_COLUMNS)
        halves = samples.filter(pc.equal(pc.bit_wise_and(samples["iteration"], 1), 0))
        (one,) = summarise_classes(merge(halves), sources=Sources.of(run.manifest))
        found = None if one.network is None else one.network.uncertainty["cct_p50_ns"]
        return Crossings(crossing_ns[::2], crossing_ns[1::2], found)

    def _profile(self, text: str) -> str:
        path = self._scratch / f"planted-{self._runs}.yaml"
        path.write_text(text)
        return str(path)

    def _lasting(self, seconds: float) -> int:
        """Bytes of a collective that takes about so long at the rate of the links."""
        return int(self._rate_bps / BITS_PER_BYTE * seconds) >> 16 << 16

    def play(
        self,
        iterations: int,
        size: int,
        *,
        collective: str = "all_reduce",
        profile: str | None = None,
        events: tuple[Event, ...] = (),
        options: Mapping[str, str | int | float | bool] | None = None,
    ) -> Run:
        """Play collectives of `size` bytes between the two hosts."""
        network = replace(self._network, transport=Transport(name="roce", options=options or {}))
        experiment = Experiment(
            jobs=(
                Job(sweep=Sweep(collective=collective, ranks=2, sizes=(size,)), iterations=iterations, warmup=WARMUP),
            ),
            network=network,
            device=Device(profile=profile),
            events=events,
            observe=Observe(report=False),
        )
        self._runs += 1
        return play(experiment, self._scratch / f"closure-{self._runs}").run


class Crossings(NamedTuple):
    """What small messages took through the switch.

    Attributes:
        crossing_ns: by the stamps at its ports, of every second message.
        others_ns: the same of the messages between them.
        found: what the run says of the former: the median of the network's part; None: it does not know.
    """

    crossing_ns: IntArray
    others_ns: IntArray
    found: Budget | None


def delay_between(without: Crossings, held: Crossings) -> ClosureTest:
    """A delay that was planted and found by two runs.

    What was planted is known from other messages than what was found, so chance is in both. How late stamps are is the
    same in both runs, and cancels.
    """
    centres = _median(without.others_ns), _median(held.others_ns)
    if centres[0] is None or centres[1] is None:
        return ClosureTest("delay", Unit.NS.value, None, None, None, NOT_SEEN)
    planted, found, parts = centres[1] - centres[0], 0.0, []
    for sign, centre, one in zip((-1, 1), centres, (without, held), strict=True):
        chance = repeat_of(one.others_ns, np.arange(len(one.others_ns)))
        why = NOT_SPLIT if one.found is None else one.found.why or chance.why
        if one.found is None or why:
            return ClosureTest("delay", Unit.NS.value, planted, None, None, why)
        found += sign * one.found.value
        parts.append((chance.relative or 0.0) * (centre or 0.0))
        parts += (part.standard or 0.0 for part in one.found.components if part.name != STAMP)
    return ClosureTest("delay", Unit.NS.value, planted, found, COVERAGE_FACTOR * math.hypot(*parts))


def _median(times_ns: IntArray) -> float | None:
    return float(np.median(times_ns)) if len(times_ns) else None


@contextmanager
def busy(percent: int) -> Iterator[None]:
    """Other work on a share of the cores."""
    with ExitStack() as stack:
        for _ in range(len(os.sched_getaffinity(0)) * percent // 100):
            one = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(one.kill)
        yield


COLUMNS: tuple[Column[ClosureTest], ...] = (
    Column("planted", "what was planted", cell=lambda one: one.name, is_number=False),
    Column("value", "planted, as the device itself counts it", cell=lambda one: _cell(one, one.planted)),
    Column("found", "what the tester measured", cell=lambda one: _cell(one, one.found), style=bold),
    Column("± U", "expanded uncertainty (k = 2)", cell=lambda one: _cell(one, one.expanded)),
    Column(
        "inside",
        "whether what was planted lies within found ± U",
        cell=lambda one: NONE if one.is_inside is None else "yes" if one.is_inside else "no",
        is_number=False,
    ),
    Column("why", "why there is no U", cell=lambda one: one.why or NONE, is_number=False, is_optional=True, folds=30),
)
EXPLAIN = explain(COLUMNS, title="What was planted, and what was found:")


def _cell(one: ClosureTest, value: float | None) -> str:
    return metric_cell(value, Unit(one.unit))


def closure_table(tests: Sequence[ClosureTest]) -> FittedTable[ClosureTest]:
    """What was planted and what was found, one row per test."""
    return FittedTable(COLUMNS, tests)
