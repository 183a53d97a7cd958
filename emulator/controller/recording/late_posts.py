"""What collectives had still to move when their last member posted, worked out when the run is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from emulator.planner.group_layout import layouts_on
from emulator.planner.network.header_overhead import WireOverhead
from emulator.planner.network.late_ranks import MOST_FOLLOWED, LateRanks
from emulator.planner.traffic.from_trace import traffic_of_workload
from emulator.planner.traffic.operation import Operation
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.results.statistics.samples.collectives import is_negligible
from emulator.results.statistics.samples.measured_rows import block_starts, to_ints
from emulator.topology.model import Topology
from emulator.trace.meaning.model import Communication, IntArray, Workload


def add_remaining_ideals(
    writer: RunWriter,
    workload: Workload,
    topology: Topology,
    *,
    ideal_ns: IntArray,
    algorithm_of: Callable[[Communication], str],
    overhead: WireOverhead,
    seed: int,
    most_followed: int = MOST_FOLLOWED,
) -> None:
    """Fill in `remaining_ideal_ns` where a rank was late. Of an operation with too many instances a sample gets it.

    Args:
        writer: of the run; no samples may be added afterwards.
        workload: what was played.
        ideal_ns: of all bytes, by instance; not positive: not known, or no port is crossed.
        overhead: headers of the transport.
        seed: of the sample.
        most_followed: transfers, of all operations together.

    Raises:
        HostError: the table cannot be written.
    """
    posts = _Posts(writer, workload, ideal_ns)
    if not len(posts.late):
        return
    traffic = traffic_of_workload(workload, name_of=algorithm_of, layouts=layouts_on(topology))
    operation_of = np.array([place.operation for place in traffic.places], np.int64)[posts.instance]
    concerned = [one for one in np.unique(operation_of[posts.late]) if traffic.operations[one].kind.is_collective]
    rng = np.random.default_rng(seed)
    found: dict[int, int] = {}
    for number in concerned:
        operation = traffic.operations[number]
        late_ranks = LateRanks(operation, topology, overhead)
        every = np.flatnonzero((operation_of == number) & (posts.counts == operation.members))
        for block in _chosen(every, posts.late, operation, budget=most_followed // len(concerned), rng=rng):
            group = traffic.places[posts.instance[block]].group
            ranks = operation.ranks[group]
            remaining_ns = late_ranks.remaining_ns(group, posts.of(block, ranks), posts.free_ns(block, ranks))
            if remaining_ns is not None:
                found[posts.key(block)] = remaining_ns
    if found:
        writer.adjust(RunTable.SAMPLES, partial(_filled, found=found, instances=len(ideal_ns)))


def _chosen(
    every: IntArray, late: IntArray, operation: Operation, *, budget: int, rng: np.random.Generator
) -> Sequence[int]:
    """The late ones; of too many a sample of all, late or not, so that it is like the whole."""
    most = budget // max(operation.transfers, 1)
    chosen = np.intersect1d(every, late)
    if len(chosen) > most:
        chosen = np.sort(rng.choice(every, most, replace=False))
    found: list[int] = chosen.tolist()
    return found


class _Posts:
    """Posts of measured collectives that cross ports, in blocks of one (iteration, instance), members by rank.

    Attributes:
        instance, counts: of each block.
        late: blocks in which a rank was late by an amount that matters.
    """

    def __init__(self, writer: RunWriter, workload: Workload, ideal_ns: IntArray) -> None:
        table = writer.run().table(
            RunTable.SAMPLES, ["iteration", "instance", "rank", "post_ns", "done_ns", "arrival_ns"]
        )
        columns = {name: to_ints(table[name], null=0) for name in table.column_names}
        columns = {
            name: column[(columns["iteration"] >= 0) & (ideal_ns[columns["instance"]] > 0)]
            for name, column in columns.items()
        }
        order = np.lexsort((columns["rank"], columns["instance"], columns["iteration"]))
        self._rank, self._post = columns["rank"][order], columns["post_ns"][order]
        self._done, self._arrival = columns["done_ns"][order], columns["arrival_ns"][order]
        iteration, instance = columns["iteration"][order], columns["instance"][order]
        self._starts = block_starts(iteration, instance)
        self._iteration, self.instance = iteration[self._starts], instance[self._starts]
        self.counts = np.diff(self._starts, append=len(order))
        self._instances = len(ideal_ns)
        self._before = _before(workload)
        self._keys = self._iteration * self._instances + self.instance
        skew = self._post[:0]
        if len(order):
            reduced = (one.reduceat(self._post, self._starts) for one in (np.maximum, np.minimum))
            skew = next(reduced) - next(reduced)
        self.late = np.flatnonzero(~is_negligible(skew, ideal_ns[self.instance]))

    def of(self, block: int, ranks: IntArray) -> Sequence[int]:
        """Of the members of a block, in the order of `ranks`; ns."""
        rows = slice(self._starts[block], self._starts[block] + self.counts[block])
        found: list[int] = self._post[rows][np.searchsorted(self._rank[rows], ranks)].tolist()
        return found

    def free_ns(self, block: int, ranks: IntArray) -> Sequence[int] | None:
        """When each member was done with the collective before of the same group; None if there is none.

        Acknowledgements that came after its last arrival do not count: they may have waited behind this collective.
        """
        before = self.key(block) - int(self.instance[block]) + self._before.get(int(self.instance[block]), -1)
        found = int(np.searchsorted(self._keys, before))
        if found == len(self._keys) or self._keys[found] != before or self.counts[found] != self.counts[block]:
            return None
        rows = slice(self._starts[found], self._starts[found] + self.counts[found])
        free = np.minimum(self._done[rows], self._arrival[rows].max())
        return list(map(int, free[np.searchsorted(self._rank[rows], ranks)]))

    def key(self, block: int) -> int:
        """Of a block, as `_filled` numbers rows."""
        return int(self._keys[block])


def _before(workload: Workload) -> Mapping[int, int]:
    """Instance of a collective → that of the one before of its group."""
    found: dict[int, int] = {}
    for program in workload.programs:
        last: dict[int, int] = {}
        for item in program.communications.values():
            if item.kind.is_collective:
                if item.group in last:
                    found[item.instance] = last[item.group]
                last[item.group] = item.instance
    return found


def _filled(batch: pa.RecordBatch, *, found: dict[int, int], instances: int) -> pa.RecordBatch:
    keys = to_ints(batch["iteration"]) * instances + to_ints(batch["instance"])
    name = "remaining_ideal_ns"
    column = pa.array([found.get(key) for key in keys.tolist()], batch.schema.field(name).type)
    return batch.set_column(batch.schema.get_field_index(name), batch.schema.field(name), column)
