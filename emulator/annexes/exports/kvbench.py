"""The sends of a run as NIXL's KVBench reports traffic patterns: its table, and its JSON (`--json-output-path`).

Sends with the same name are a pattern: those of an imported matrix are named after it. Latency runs from the first post
to the last completion of its senders; KVBench's latency in isolation is not measured.

Source: ai-dynamo/nixl at 8770b65, benchmark/kvbench/test/sequential_custom_traffic_perftest.py.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from emulator.annexes.exports.formats import Format, as_text
from emulator.errors import ResultError
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.measured_rows import read_measured

_COLUMNS = ("iteration", "rank", "name", "kind", "size_bytes", "post_ns", "done_ns")
_HEADINGS = (
    "Transfer size (GB)",
    "Latency (ms)",
    "Isolated Latency (ms)",
    "Num Senders",
    "Mean BW (GB/s)",
)


@dataclass(slots=True)
class _Sender:
    size_bytes: int = 0
    start_ns: int = 0
    end_ns: int = 0


@dataclass(slots=True)
class _SendPattern:
    """The sends of one name in one iteration, by rank."""

    senders: dict[int, _Sender] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        one = self.senders.setdefault(row["rank"], _Sender(0, row["post_ns"], row["done_ns"]))
        one.size_bytes += row["size_bytes"]
        one.start_ns = min(one.start_ns, row["post_ns"])
        one.end_ns = max(one.end_ns, row["done_ns"])

    @property
    def start_ns(self) -> int:
        return min(one.start_ns for one in self.senders.values())

    @property
    def end_ns(self) -> int:
        return max(one.end_ns for one in self.senders.values())

    @property
    def size_gb(self) -> float:
        """1e9 bytes."""
        return sum(one.size_bytes for one in self.senders.values()) / 1e9

    @property
    def latency_ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6

    @property
    def mean_bandwidth(self) -> float:
        """Mean over the senders, 1e9 bytes per second."""
        rates = [one.size_bytes / max(1, one.end_ns - one.start_ns) for one in self.senders.values()]
        return sum(rates) / len(rates)


def to_text(run: Run) -> str:
    """A table for every iteration.

    Raises:
        ResultError: the run cannot be read, or has no measured send.
    """
    iterations = _iterations(run)
    lines: list[str] = []
    for number, patterns in enumerate(iterations, 1):
        lines += [f"Iteration {number}/{len(iterations)}", *_table(patterns), ""]
    return "\n".join(lines)


def to_json(run: Run) -> str:
    """What KVBench writes; times are seconds since 1970 by the run's start and its clock.

    Raises:
        ResultError: the run cannot be read, or has no measured send.
    """
    iterations = _iterations(run)
    created_s = datetime.fromisoformat(run.manifest.created).timestamp()
    begin_ns = min(pattern.start_ns for patterns in iterations for pattern in patterns)

    def seconds(time_ns: int) -> float:
        return created_s + (time_ns - begin_ns) / 1e9

    document = {
        "iterations_results": [
            [
                {
                    "size": pattern.size_gb,
                    "latency": pattern.latency_ms,
                    "isolated_latency": None,
                    "num_senders": len(pattern.senders),
                    "mean_bw": pattern.mean_bandwidth,
                    "min_start_ts": seconds(pattern.start_ns),
                    "max_end_ts": seconds(pattern.end_ns),
                }
                for pattern in patterns
            ]
            for patterns in iterations
        ],
        "metadata": {
            "ts": created_s,
            "iters": [{"start_ts": seconds(patterns[0].start_ns)} for patterns in iterations],
            "generator": f"charkha {run.manifest.versions.get('charkha', '')}".strip(),
            "run_id": run.manifest.run_id,
        },
    }
    return json.dumps(document, indent=1) + "\n"


def _iterations(run: Run) -> list[list[_SendPattern]]:
    """Patterns in the order in which they began, for each measured iteration."""
    found: defaultdict[int, defaultdict[str, _SendPattern]] = defaultdict(lambda: defaultdict(_SendPattern))
    for row in read_measured(run, RunTable.SAMPLES, _COLUMNS).to_pylist():
        if row["kind"] == "send":
            found[row["iteration"]][row["name"]].add(row)
    if not found:
        raise ResultError("has no measured send", path=run.folder)
    return [sorted(found[number].values(), key=lambda one: one.start_ns) for number in sorted(found)]


def _table(patterns: Sequence[_SendPattern]) -> Iterator[str]:
    yield "  ".join(_HEADINGS)
    yield "  ".join("-" * len(heading) for heading in _HEADINGS)
    for one in patterns:
        cells = (
            f"{one.size_gb:.3f}",
            f"{one.latency_ms:.3f}",
            "",
            str(len(one.senders)),
            f"{one.mean_bandwidth:.3f}",
        )
        yield "  ".join(cell.rjust(len(heading)) for cell, heading in zip(cells, _HEADINGS, strict=True)).rstrip()


KVBENCH = Format("kvbench", ".kvbench.txt", "the table of NIXL's KVBench, or its JSON", as_text(to_text))
KVBENCH_JSON = Format("kvbench-json", ".kvbench.json", "what KVBench writes as JSON", as_text(to_json))
