"""What a metric of a run is: its name, unit, what its values describe, and how they are read. metrics.py lists them.

A metric is read from the summary of a run. What was not measured has no value; it is never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from emulator.results.statistics.samples.classes import ClassKey
from emulator.results.statistics.summary import RunSummary
from emulator.results.statistics.traffic.flow_figures import FlowKey
from emulator.results.statistics.uncertainty import Budget
from emulator.units import NS_PER_S


class Unit(Enum):
    """Unit of a metric; the value is its symbol as in UCUM."""

    NS = "ns"
    BYTES_PER_S = "By/s"
    BYTES = "By"
    RATIO = "1"
    PERCENT = "%"
    COUNT = "{count}"


class Scope(Enum):
    """What a value of a metric describes."""

    RUN = "run"
    ITERATION = "iteration"
    CLASS = "class"
    FLOW = "flow"
    DEVICE = "device"
    EVENT = "event"
    PORT = "port"

    @property
    def is_many(self) -> bool:
        """Whether a run has so many values that only the worst is named."""
        return self in (Scope.ITERATION, Scope.FLOW, Scope.PORT)


class MetricKind(Enum):
    """TIMING: a slow tester changes it. COUNTER: events of the whole run, which add up. LEVEL: neither."""

    TIMING = "timing"
    COUNTER = "counter"
    LEVEL = "level"


class TesterEffect(Enum):
    """What a tester that has too few cores, or drops datagrams, does to a value. NOTHING: the device's own counts."""

    HIGHER = "higher"
    LOWER = "lower"
    EITHER = "either way"
    NOTHING = "nothing"


class IterationKey(NamedTuple):
    """A measured iteration."""

    number: int


Subject: TypeAlias = ClassKey | IterationKey | FlowKey | str | None


class Reading(NamedTuple):
    """A value of a metric.

    Attributes:
        subject: the class, the iteration, the flow, the event, or the name of the port or device; None: the run.
        value: in the unit of the metric; None: not measured.
        is_tester_limited: the tester rather than the device set the value.
        perfect: what a perfect device would have shown with this tester; None: not known.
        core_wait_fraction: share (0 to 1) of the time of this class that an agent waited for a core; None: not known,
            or not a class.
        without_waits: the same of the times less the tester's waits for a core; where these are not known the median
            for a maximum or a high percentile, which no single stall of the tester moves, and None for others.
        why: why there is no value; "": it was not measured.
        is_least: the value is at least this; `why` says why no more is known.
        shares_ports: other collectives crossed the same ports at the same time.
        network: the same of the part of the time that the network had; None: not measured.
        network_at_best: `network` without what the tester may have added to it.
        network_perfect: that of a perfect device, to which the tester had added the same; None: not known.
        is_network_whole: False: the network's part does not say how fast the ports were.
        budget, network_budget, at_best_budget: the uncertainty of `value`, `network` and `network_at_best`; None: such
            a value has none.
    """

    subject: Subject
    value: float | None
    is_tester_limited: bool = False
    perfect: float | None = None
    without_waits: float | None = None
    why: str = ""
    core_wait_fraction: float | None = None
    shares_ports: bool = False
    network: float | None = None
    network_at_best: float | None = None
    network_perfect: float | None = None
    is_network_whole: bool = True
    budget: Budget | None = None
    network_budget: Budget | None = None
    at_best_budget: Budget | None = None
    is_least: bool = False


Reader: TypeAlias = Callable[[RunSummary], Iterator[Reading]]
STATISTICS = {"p50": "median", "p99": "99th percentile", "min": "smallest", "max": "largest"}
_PUBLISHED_UNITS = {Unit.NS: ("s", "seconds"), Unit.BYTES_PER_S: ("By/s", "bytes_per_second"), Unit.COUNT: ("1", "")}


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        name: in rules, and in documents that list metrics by name.
        title: for people, in tables and figures.
        what: one line for people: what is measured.
        key: where `--json` has it: `iteration.jct_ns`, `classes[].busbw_bytes_per_s`.
        effect: what a starved tester does to it.
        family: its name outside Charkha, without prefix; metrics of one family differ in their statistic.
        statistic: a key of STATISTICS; "": the family has one metric.
    """

    name: str
    title: str
    unit: Unit
    scope: Scope
    what: str
    key: str
    kind: MetricKind
    effect: TesterEffect
    family: str
    statistic: str
    read: Reader

    @property
    def meaning(self) -> str:
        """One line for people, with the statistic."""
        return f"{self.what}, {STATISTICS[self.statistic]}" if self.statistic else self.what

    @property
    def field(self) -> str:
        """Last part of `key`: the attribute of a summary, or the counter."""
        return self.key.rpartition(".")[2]

    @property
    def otel_name(self) -> str:
        """Its name in OpenTelemetry: `charkha.cct`."""
        return f"charkha.{self.family}"

    @property
    def published_unit(self) -> str:
        """Unit outside Charkha: both OpenTelemetry and Prometheus have times in seconds."""
        return _PUBLISHED_UNITS.get(self.unit, (self.unit.value, ""))[0]

    @property
    def prometheus_name(self) -> str:
        """Its name in Prometheus: `charkha_cct_seconds`."""
        parts = ("charkha", self.family.replace(".", "_"), _PUBLISHED_UNITS.get(self.unit, ("", ""))[1])
        return "_".join(filter(None, parts))

    def published(self, value: float) -> float:
        """A value in the unit of `published_unit`."""
        return value / NS_PER_S if self.unit is Unit.NS else value
