"""A model of the tester: how much of a measured time the tester itself needs.

Calibration measures it without a device under test: the time of one step of a collective with almost no bytes, and the
throughput of all ranks of the machine together for steps of several sizes. Collectives that run at the same time share
the machine, so their bytes count too.

Limits that the hosts of a run reached are warnings: buffers that the kernel cut, datagrams that it dropped, shared
ports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from emulator.errors import PlanError
from emulator.planner.algorithms import depends_on_layout, schedule
from emulator.planner.group_layout import GroupLayout, Layouts
from emulator.planner.schedule import Collective
from emulator.results.run_folder.manifest import HostFacts
from emulator.results.statistics.method.descriptive import median
from emulator.results.statistics.samples.collectives import MergedSamples
from emulator.results.statistics.samples.measured_rows import to_ints
from emulator.results.statistics.samples.transfers import FloatArray, bytes_in_flight
from emulator.trace.meaning.model import CommKind, IntArray
from emulator.units import NS_PER_S, format_size

TESTER_LIMITED_PERCENT = 90.0
"""From this share of the measured time on, the tester sets the time rather than the device."""
MOST_CORE_WAIT = 0.2
"""Share of the time that an agent was ready to run and had no core, above which times describe the tester."""
SLOWEST_TESTER = 1.6
"""A tester's own time when other processes keep all cores busy / its calibrated time, at most. It takes longer even if
it never waits for a core, because hardware threads share one: 0.9 to 1.53 times in 10 runs of 64 KiB on two cores, 2
ranks, agents with priority (lab.benchmarks.verdicts busy)."""
_MAX_SCHEDULED_MEMBERS = 1024
"""Larger groups have no share: their schedule takes too long to compute."""


@dataclass(frozen=True, slots=True)
class TesterModel:
    """What the tester does without a device under test.

    Attributes:
        rates: (bytes that a rank sends in a step, payload of all ranks of the machine together, bytes/s), ascending.
            Between two sizes the rate is interpolated over the logarithm of the size; beyond the ends it is constant.
        step_ns: one step of a collective of almost no bytes, with all ranks active.
    """

    rates: Sequence[tuple[int, float]]
    step_ns: float

    @classmethod
    def from_manifest(cls, calibration: Mapping[str, object]) -> TesterModel | None:
        """The model in the manifest of a run; None if the tester was not calibrated."""
        rates, step = calibration.get("rates"), calibration.get("step_ns")
        if not isinstance(rates, Sequence) or not isinstance(step, int | float):
            return None
        return cls([(int(size), float(rate)) for size, rate in rates], float(step))

    def rate_bytes_per_s(self, step_bytes: float) -> float:
        """Throughput for steps of this size."""
        sizes, rates = zip(*self.rates, strict=True)
        return float(np.interp(np.log(max(step_bytes, 1)), np.log(sizes), rates))


@dataclass(frozen=True, slots=True)
class TesterShare:
    """The tester's share of the measurements of a run.

    Attributes:
        machine_bytes: for each of them, see `bytes_in_flight`.
        layouts: of their groups; None: not known.
    """

    model: TesterModel
    merged: MergedSamples
    machine_bytes: FloatArray
    layouts: InstanceLayouts | None = None

    @classmethod
    def of(
        cls,
        model: TesterModel,
        samples: pa.Table,
        merged: MergedSamples,
        *,
        layouts: InstanceLayouts | None = None,
        domain_share: float = 0.0,
        beside_bytes_per_s: float = 0.0,
    ) -> TesterShare:
        """The share of a tester in these measurements.

        Bytes through scale-up domains, which are `domain_share` of all, cost the tester nothing. All measurements
        between hosts are taken to have the same part of them. Flows alongside the job cost it as much as payload.
        """
        sent = bytes_in_flight(samples, merged)
        if domain_share:
            inside = merged.has_hosts & ~merged.between_hosts
            local = float(sent[inside].sum() / max(sent.sum(), 1.0))
            wire = min(1.0, (1 - domain_share) / max(1 - local, 1e-9))
            sent = np.where(inside, 0.0, sent * wire)
        sent = sent + np.maximum(merged.cct_ns, 0) * (beside_bytes_per_s / NS_PER_S)
        return cls(model, merged, sent, layouts)

    def percent(self, rows: IntArray, *, kind: CommKind, algorithm: str) -> float | None:
        """100 x time that the tester adds to the ideal time / measured time, at the median of the rows of one class.

        A step costs its time whatever the network does. The tester moves bytes while the ports do: it adds only what
        it needs longer than they.

        None if the algorithm is unknown here, the group is too large, or no time is above zero.
        """
        merged, model = self.merged, self.model
        layout = None
        if self.layouts is not None and kind.is_collective and depends_on_layout(kind, algorithm):
            layout = self.layouts.of(int(merged.instance[rows[0]]))
        members, size_bytes = int(merged.members[rows[0]]), int(merged.size_bytes[rows[0]])
        steps, step_bytes = _steps(kind, members, size_bytes, algorithm, layout)
        cct_ns = merged.cct_ns[rows]
        valid = cct_ns > 0
        if not steps or not np.any(valid):
            return None
        rate = model.rate_bytes_per_s(step_bytes)
        moving_ns = self.machine_bytes[rows] / rate * NS_PER_S
        needed_ns = steps * model.step_ns + np.maximum(moving_ns - np.maximum(merged.ideal_ns[rows], 0), 0)
        return median(100 * needed_ns[valid] / cct_ns[valid])


@cache
def _steps(
    kind: CommKind, members: int, size_bytes: int, algorithm: str, layout: GroupLayout | None
) -> tuple[int, float]:
    """Steps of the longest lane of a member, and bytes that it sends in each; 0 steps if unknown."""
    if not kind.is_collective:
        return 1, size_bytes
    if members > _MAX_SCHEDULED_MEMBERS:
        return 0, 0
    try:
        view = Collective(kind, members, members - 1, size_bytes, layout=layout)
        lanes = [list(lane) for lane in schedule(algorithm, view)]
    except PlanError:  # a user's algorithm that is not installed here, or uneven splits
        return 0, 0
    steps = max(map(len, lanes), default=0)
    sent = sum(transfer.size for lane in lanes for step in lane for transfer in step.sends)
    return steps, sent / max(steps, 1)


class InstanceLayouts:
    """The layouts of the groups of a run.

    Args:
        samples: with `instance` and `rank`.
        topology: of the manifest.
    """

    def __init__(self, samples: pa.Table, topology: Mapping[str, Any]) -> None:
        hosts = topology.get("host_index") or ()
        self._layouts = Layouts(hosts, topology.get("interface_index") or [0] * len(hosts))
        self._samples = samples

    def of(self, instance: int) -> GroupLayout | None:
        """That of the group of an instance, with its members by rank; None if it is not known."""
        ranks = to_ints(self._samples["rank"])[to_ints(self._samples["instance"]) == instance]
        return self._layouts.of(np.unique(ranks).tolist())


_SYSCTLS = {"receive": "net.core.rmem_max", "send": "net.core.wmem_max"}
_STRANGE = {
    "dropped.stranger": "packets came from senders that are not of the run",
    "dropped.length": "packets came that are too short for RoCEv2",
}
"""Drops → what they mean."""
_Facts = Mapping[str, int]


def host_limit_warnings(hosts: Iterable[HostFacts]) -> Mapping[str, int]:
    """Warnings with their remedy → number of occurrences, from the facts that transports of agents report.

    docs/results.md lists the facts.
    """
    facts = [
        {name: one.value for name, one in host.transport.items() if isinstance(one.value, int)}
        for host in hosts
        if host.transport
    ]
    return dict([*_cut_buffers(facts), *_drops(facts), *_strangers(facts), *_shared_ports(facts)])


def _cut_buffers(facts: Sequence[_Facts]) -> Iterator[tuple[str, int]]:
    """One warning per kind of buffer, for the smallest one."""
    for direction, sysctl in _SYSCTLS.items():
        for granted, requested in sorted(_buffer(one, direction) for one in facts)[:1]:
            if granted < requested:
                size = f"{format_size(granted)} of {format_size(requested)}"
                yield f"the kernel granted {size} for a {direction} buffer: sysctl -w {sysctl}={requested}", 1


def _drops(facts: Sequence[_Facts]) -> Iterator[tuple[str, int]]:
    received = sum(one.get("dropped.queue", 0) for one in facts)
    if received:
        remedy = _raise_buffer(facts, "receive") or "choose a smaller --window-bytes"
        yield f"the kernel dropped datagrams because a receive buffer was full: {remedy}", received
    sent = sum(one.get("dropped.send", 0) for one in facts)
    if sent:
        remedy = _raise_buffer(facts, "send") or "choose a --rate-cap, or check the packet filters of the host"
        yield f"the kernel refused to send a datagram: {remedy}", sent


def _strangers(facts: Sequence[_Facts]) -> Iterator[tuple[str, int]]:
    """What came to ranks and was of nobody in the run: it cost time, and somebody sent it."""
    for fact, what in _STRANGE.items():
        if found := sum(one.get(fact, 0) for one in facts):
            yield f"{what}: find out who else sends to the addresses of the ranks", found


def _shared_ports(facts: Sequence[_Facts]) -> Iterator[tuple[str, int]]:
    shared = sum(one.get("ports_shared", 0) for one in facts)
    if shared:
        remedy = "raise `ulimit -n`, or use more --agents"
        yield f"a queue pair had to share a source port because open files ran out: {remedy}", shared


def _raise_buffer(facts: Sequence[_Facts], direction: str) -> str | None:
    """The command that allows larger buffers; None if every buffer has the requested size already."""
    buffers = [_buffer(one, direction) for one in facts]
    if all(granted >= requested for granted, requested in buffers):
        return None
    return f"sysctl -w {_SYSCTLS[direction]}={max(requested for _, requested in buffers)}"


def _buffer(facts: _Facts, direction: str) -> tuple[int, int]:
    """(granted, requested), bytes."""
    return facts.get(f"{direction}_buffer_granted", 0), facts.get(f"{direction}_buffer_asked", 0)
