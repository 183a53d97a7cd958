"""What run folders say, as the metrics of Open Traffic Generator. A metric that was not measured is left out.

Times are in seconds, bandwidths in Gbit/s, as upstream defines them; all come from the registry of metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.annexes.service.otg.model import Communicator, IterationRecording, Plain
from emulator.annexes.service.otg.translation import StageRun
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.session import load_session
from emulator.results.statistics.method.nccl_conventions import busbw_factor
from emulator.results.statistics.metric import IterationKey
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.units import NS_PER_S

COLUMNS = (
    *("jct", "ideal_jct", "jct_percent", "avg_jct", "max_jct", "min_jct", "alg_bw", "bus_bw", "max_tail_latency_us"),
    *("iteration_count", "drop_count", "reorder_count", "reduce_time", "trans_time", "training_time"),
)
"""Those that can be asked for."""
_GBPS = 1e9 / 8
"""Bytes per second."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The iterations of a communicator in the runs of its stage.

    Attributes:
        size_bytes: of the collective.
        busbw_factor: bus bandwidth over algorithm bandwidth.
        loops: a summary for each run.
    """

    size_bytes: int
    busbw_factor: float
    loops: Sequence[RunSummary]

    @classmethod
    def of(cls, run: StageRun, communicator: Communicator, folders: Sequence[Path]) -> Measured:
        """Read them.

        Raises:
            ResultError: a folder is damaged.
        """
        (job,) = (one for one in run.experiment.jobs if one.name == communicator.name)
        assert job.sweep is not None
        factor = busbw_factor(job.sweep.kind, members=job.sweep.ranks)
        assert factor is not None
        loops = [summarise(_run_of(folder, communicator.name)) for folder in folders]
        return cls(communicator.generation.size_bytes, factor, loops)

    def columns(self) -> Plain:
        """The columns of COLUMNS that were measured."""
        times = [jct_ns for loop in self.loops for jct_ns in _by_iteration(loop, "iteration_jct").values()]
        if not times:
            return {"iteration_count": 0}
        jct_s = sum(times) / NS_PER_S
        drops, reorders = self._sum("device_drops"), self._sum("out_of_order")
        tails = [one.value for loop in self.loops for one in METRICS["cct_max"].read(loop)]
        found = {
            "jct": jct_s,
            **self._to_ideal(jct_s),
            "avg_jct": jct_s / len(times),
            "max_jct": max(times) / NS_PER_S,
            "min_jct": min(times) / NS_PER_S,
            **self._bandwidths(jct_s / len(times)),
            "max_tail_latency_us": max((round(one / 1000) for one in tails if one is not None), default=None),
            "iteration_count": len(times),
            "drop_count": drops,
            "reorder_count": reorders,
            "reduce_time": 0.0,  # there is no compute
            "trans_time": jct_s,
            "training_time": jct_s,
        }
        return {name: value for name, value in found.items() if value is not None}

    def iterations(self, recording: IterationRecording) -> list[Plain]:
        """A record of each, at most so many as are asked for."""
        records = (one for number, loop in enumerate(self.loops, 1) for one in self._records(loop, number))
        return [record for record, _ in zip(records, range(recording.max_record_count), strict=False)]

    def _records(self, loop: RunSummary, number: int) -> Iterator[Plain]:
        events = {
            name: _by_iteration(loop, f"iteration_{metric}")
            for name, metric in (("rx_ecn_count", "ecn_marks"), ("reorder_count", "out_of_order"))
        }
        for iteration, jct_ns in _by_iteration(loop, "iteration_jct").items():
            yield {
                "iteration": iteration + 1,
                "stage_loop": number,
                "is_complete": True,
                "jct": jct_ns / NS_PER_S,
                **self._bandwidths(jct_ns / NS_PER_S),
                **{name: counts[iteration] for name, counts in events.items() if iteration in counts},
            }

    def _bandwidths(self, jct_s: float) -> Plain:
        alg_bw = self.size_bytes / jct_s / _GBPS
        return {"alg_bw": alg_bw, "bus_bw": alg_bw * self.busbw_factor}

    def _to_ideal(self, jct_s: float) -> Plain:
        """Of each run, the median iteration and its ratio to the ideal one are known, if the ports have rates."""
        ideal_s = 0.0
        for loop in self.loops:
            median_ns, ratio = _value(loop, "jct"), _value(loop, "jct_to_ideal")
            if median_ns is None or not ratio:
                return {}
            ideal_s += len(_by_iteration(loop, "iteration_jct")) * median_ns / ratio / NS_PER_S
        return {"ideal_jct": ideal_s, "jct_percent": 100 * jct_s / ideal_s}

    def _sum(self, metric: str) -> int | None:
        values = [_value(loop, metric) for loop in self.loops]
        known = [int(one) for one in values if one is not None]
        return sum(known) if len(known) == len(values) else None


def _run_of(folder: Path, job: str) -> Run:
    session = load_session(folder)
    return session.run if session.is_run else session.jobs[job]


def _value(summary: RunSummary, metric: str) -> float | None:
    return next((one.value for one in METRICS[metric].read(summary)), None)


def _by_iteration(summary: RunSummary, metric: str) -> Mapping[int, int]:
    return {
        one.subject.number: int(one.value)
        for one in METRICS[metric].read(summary)
        if isinstance(one.subject, IterationKey) and one.value is not None
    }
