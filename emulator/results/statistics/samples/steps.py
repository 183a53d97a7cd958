"""The recorded steps of a run: transfers of chosen instances, and when each could have begun."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from emulator.host.parquet import to_table
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.classes import ClassKey, class_rows
from emulator.results.statistics.samples.collectives import MERGE_COLUMNS, merge
from emulator.results.statistics.samples.table_columns import UNKNOWN, block_starts, to_ints
from emulator.results.statistics.traffic.network_traffic import hosts_of_ranks
from emulator.trace.meaning.model import CommKind, IntArray

_NUMBERS = (
    "iteration", "instance", "lane", "step", "src", "dst", "size_bytes", "start_ns", "post_ns", "acknowledged_ns",
    "arrival_ns", "qpn", "source_port", "ideal_post_ns", "ideal_arrival_ns",
)  # fmt: skip
_Key = tuple[int, int]
"""(iteration, instance)"""


@dataclass(frozen=True, slots=True)
class RecordedInstance:
    """A collective or pair of an iteration whose steps were recorded.

    Attributes:
        name: of its node in the trace.
        ranks: its members, ascending.
        zero_ns: when everybody was there: the last post; of a pair, the post of the send.
        rows: of the steps.
    """

    iteration: int
    instance: int
    key: ClassKey
    name: str
    ranks: tuple[int, ...]
    zero_ns: int
    cct_ns: int
    rows: IntArray


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a run.

    Attributes:
        columns: of the steps table as int64, UNKNOWN for null; but see `paths`.
        paths: "" where it is not known.
        ready_ns: when each transfer could begin: its step had begun, and everybody was there.
        instances: in order of iteration and instance.
    """

    columns: Mapping[str, IntArray]
    paths: Sequence[str]
    ready_ns: IntArray
    instances: Sequence[RecordedInstance]

    @property
    def time_ns(self) -> IntArray:
        """From ready to the arrival of the last byte; UNKNOWN where either is not known."""
        arrival_ns = self.columns["arrival_ns"]
        known = (arrival_ns != UNKNOWN) & (self.columns["start_ns"] != UNKNOWN)
        return np.where(known, arrival_ns - self.ready_ns, UNKNOWN)


def read_steps(run: Run) -> Steps | None:
    """The steps of a run; None if it recorded none.

    Raises:
        ResultError: a table of the run is missing or damaged.
    """
    table = run.table(RunTable.STEPS)
    if not table.num_rows:
        return None
    columns = {name: to_ints(table[name]) for name in _NUMBERS}
    order = np.lexsort((columns["start_ns"], columns["instance"], columns["iteration"]))
    columns = {name: column[order] for name, column in columns.items()}
    starts = block_starts(columns["iteration"], columns["instance"])
    keys = zip(columns["iteration"][starts].tolist(), columns["instance"][starts].tolist(), strict=True)
    rows = dict(zip(keys, np.split(np.arange(len(order)), starts[1:]), strict=True))
    instances = sorted(_instances(run, rows), key=lambda one: (one.iteration, one.instance))
    ready_ns = columns["start_ns"].copy()
    for one in instances:
        ready_ns[one.rows] = np.maximum(ready_ns[one.rows], one.zero_ns)
    paths = table["path"].to_pylist()
    return Steps(columns, [paths[at] or "" for at in order.tolist()], ready_ns, instances)


def _instances(run: Run, rows: Mapping[_Key, IntArray]) -> Iterator[RecordedInstance]:
    """Those that all members completed."""
    samples = _samples(run, rows)
    merged = merge(samples, hosts_of_ranks(run.manifest), until=run.manifest.cct_until)
    members: dict[_Key, list[dict[str, Any]]] = {}
    for sample in samples.select(["iteration", "instance", "rank", "kind", "name", "post_ns"]).to_pylist():
        members.setdefault((sample["iteration"], sample["instance"]), []).append(sample)
    for key, of_class in class_rows(merged):
        for at in of_class.tolist():
            which = (int(merged.iteration[at]), int(merged.instance[at]))
            # A pair begins when it is sent: the receiver need not have posted.
            posts = [one for one in members[which] if one["kind"] != CommKind.RECV.label]
            yield RecordedInstance(
                *which,
                key,
                name=posts[0]["name"],
                ranks=tuple(sorted(one["rank"] for one in members[which])),
                zero_ns=max(one["post_ns"] for one in posts),
                cct_ns=int(merged.cct_ns[at]),
                rows=rows[which],
            )


def _samples(run: Run, wanted: Collection[_Key]) -> pa.Table:
    """The samples of some instances; others are never held together."""
    names = [*MERGE_COLUMNS, *(one for one in ("rank", "name") if one not in MERGE_COLUMNS)]
    kept = []
    for batch in run.batches(RunTable.SAMPLES, names):
        keys = zip(batch["iteration"].to_pylist(), batch["instance"].to_pylist(), strict=True)
        kept.append(batch.filter(pa.array([key in wanted for key in keys], pa.bool_())))
    return to_table(kept, pa.schema([RunTable.SAMPLES.schema.field(name) for name in names]))
