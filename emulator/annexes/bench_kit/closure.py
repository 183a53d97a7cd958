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

from msgspec.structs import replace

from emulator.device.lab.labs import Labs
from emulator.errors import InputError
from emulator.experiment.play.play import play
from emulator.experiment.spec.event_spec import Event
from emulator.experiment.spec.spec import Device, Experiment, Job, Network, Observe, Sweep, Transport
from emulator.results.statistics.calibration import ClosureTest
from emulator.results.statistics.metric import Unit
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.results.statistics.uncertainty import COVERAGE_FACTOR
from emulator.roce.connection.send_queue import LONGEST_TIMEOUT_FACTOR
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from emulator.views.columns.columns import Column, bold, explain
from emulator.views.columns.figures import NONE
from emulator.views.terminal.table import FittedTable
from emulator.views.verdict_text import metric_cell

PORT = "sw0:p1"
SHARE, EVERY, OUTAGE_MS = 50, 50, 200
"""Planted: percent of the port's rate, one data frame of so many, and how long the link is down."""
QUEUE, PATIENT = "64M", 19
"""Of the port that is slowed: nothing is dropped, and no time-out comes (2.1 s) while frames wait in it."""
FASTEST_BPS = 10**9
"""Ports of the lab are not faster: a lab that is busy forwarding measures itself."""
ITERATIONS, ITERATION_S = 20, 0.25
TIMEOUT_EXPONENT = 12
"""Time-outs of 17 ms, stretched to 67 ms: seven retries outlast the outage."""
LOADS = (0, 50, 100)
"""Percent of the cores that other work uses while a rate is measured."""


def closure_tests(topology: Topology, scratch: Path) -> tuple[ClosureTest, ...]:
    """Plant and measure; takes about a minute.

    Raises:
        InputError: the topology states no rate.
        EmulatorError: as a run.
    """
    rates = [port.rate_bps for host in topology.hosts for port in host.interfaces if port.rate_bps]
    if not rates:
        raise InputError("--closure: the topology has no rate to plant a share of: give its links a rate")
    rate_bps = min(*rates, FASTEST_BPS)
    with _lab(topology, rate_bps, scratch) as network:
        bed = _Bed(network, rate_bps, scratch)
        return (*map(bed.rate, LOADS), bed.loss(), bed.outage())


@contextmanager
def _lab(topology: Topology, rate_bps: int, scratch: Path) -> Iterator[Network]:
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
    labs.up(load_topology(path, ranks=0), lab_id=lab_id)
    try:
        yield Network(topology=str(path), lab=lab_id, transport=Transport(name="roce"))
    finally:
        labs.down(lab_id)


class _Bed:
    """The lab, and the runs in it."""

    def __init__(self, network: Network, rate_bps: int, scratch: Path) -> None:
        self._network, self._rate_bps, self._scratch = network, rate_bps, scratch
        self._runs = 0

    def rate(self, load: int) -> ClosureTest:
        """A port that sends at a share of its rate: the network's part of broadcasts that cross it.

        One way alone: acknowledgements do not wait behind payload, and the queue of the port never runs dry.
        """
        rule = f"{{name: planted, shape: {{rate: {SHARE} %, queue: {QUEUE}}}, port: '{PORT}'}}"
        options: dict[str, str | int | float | bool] = {"qp_timeout": PATIENT}
        with _busy(load):
            summary = self._measure(
                ITERATIONS,
                share=SHARE / 100,
                collective="broadcast",
                profile=self._profile(f"rules: [{rule}]"),
                options=options,
            )
        name = f"rate, {load} % other work" if load else "rate"
        (one,) = summary.classes
        part = one if one.network is None else one.network
        budget = part.uncertainty.get("ideal_percent")
        if budget is None:
            return ClosureTest(name, Unit.PERCENT.value, SHARE, None, None, "no rate was measured")
        return ClosureTest(name, Unit.PERCENT.value, SHARE, budget.value, budget.expanded, budget.why)

    def loss(self) -> ClosureTest:
        """Every 50th data frame: those that the rule dropped, and those that the agents say did not arrive."""
        rule = f"{{name: planted, drop: {{every: {EVERY}}}, opcode: data, port: '{PORT}'}}"
        totals = self._measure(2, share=0.2, profile=self._profile(f"rules: [{rule}]")).totals
        planted, found = totals.dut.get("profile_drops", 0), totals.lost_packets
        return ClosureTest("loss", Unit.COUNT.value, planted, found, 0.0, "" if planted else "no frame met the rule")

    def outage(self) -> ClosureTest:
        """A link that is down: how long by the kernel, and how long no payload came.

        A queue pair sends again when its next timer fires, so what it sees lasts longer, by up to that.
        """
        down = Event(at="100ms", port=PORT, down=f"{OUTAGE_MS}ms")
        summary = self._measure(1, share=1, events=(down,), options={"qp_timeout": TIMEOUT_EXPONENT})
        (found,) = summary.events
        if found.outage_ns is None or found.event.lasted_ns is None:
            return ClosureTest("outage", Unit.NS.value, OUTAGE_MS * 1_000_000, None, None, found.why or "not found")
        timer_ns = LONGEST_TIMEOUT_FACTOR * (4096 << TIMEOUT_EXPONENT)
        errors = (found.event.begin_error_ns, found.event.end_error_ns, found.outage_error_ns)
        bounds = [timer_ns / 2, *(float(one or 0) for one in errors)]
        # The wait for the timer is between nothing and all of it: half of it is taken off, and the other half is ±.
        standard = math.hypot(*bounds) / math.sqrt(3)
        value = found.outage_ns - timer_ns / 2
        return ClosureTest("outage", Unit.NS.value, found.event.lasted_ns, value, COVERAGE_FACTOR * standard, "")

    def _profile(self, text: str) -> str:
        path = self._scratch / f"planted-{self._runs}.yaml"
        path.write_text(text)
        return str(path)

    def _measure(
        self,
        iterations: int,
        *,
        share: float,
        collective: str = "all_reduce",
        profile: str | None = None,
        events: tuple[Event, ...] = (),
        options: Mapping[str, str | int | float | bool] | None = None,
    ) -> RunSummary:
        """Play collectives that take about ITERATION_S each; share: of the rate that the port gives."""
        size = int(self._rate_bps / 8 * share * ITERATION_S) >> 16 << 16
        network = replace(self._network, transport=Transport(name="roce", options=options or {}))
        experiment = Experiment(
            jobs=(Job(sweep=Sweep(collective=collective, ranks=2, sizes=(size,)), iterations=iterations, warmup=1),),
            network=network,
            device=Device(profile=profile),
            events=events,
            observe=Observe(report=False),
        )
        self._runs += 1
        return summarise(play(experiment, self._scratch / f"closure-{self._runs}").run)


@contextmanager
def _busy(percent: int) -> Iterator[None]:
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
