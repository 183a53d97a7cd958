"""Communication that overlaps on a rank.

ASTRA-sim keeps one communication node in flight per rank, receives excepted; it queues the others. Its iteration is
therefore longer than the measured one if a trace overlaps communication.
Source: ASTRA-sim, astra-sim/workload/HardwareResource.cc.
"""

from __future__ import annotations

import numpy as np

from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.measured_rows import read_measured
from emulator.results.statistics.samples.table_columns import labels_and_codes, to_ints
from emulator.trace.meaning.model import CommKind


def overlapping(run: Run) -> tuple[int, int]:
    """(measurements posted on a rank before an earlier one was complete, all measurements); receives do not count.

    Raises:
        ResultError: the samples are missing or damaged.
    """
    names = ["iteration", "rank", "kind", "group_size", "post_ns", "done_ns"]
    table = read_measured(run, RunTable.SAMPLES, names)
    labels, codes = labels_and_codes(table["kind"])
    is_recv = np.array([label == CommKind.RECV.label for label in labels], bool)[codes]
    keep = ~is_recv & (to_ints(table["group_size"]) != 1)
    iteration, rank, post, done = (to_ints(table[name])[keep] for name in ("iteration", "rank", "post_ns", "done_ns"))
    order = np.lexsort((post, rank, iteration))
    count, lane, busy_until = 0, (-1, -1), 0
    for row in order.tolist():
        here = (int(iteration[row]), int(rank[row]))
        if here != lane:
            lane, busy_until = here, int(done[row])
            continue
        count += int(post[row]) < busy_until
        busy_until = max(busy_until, int(done[row]))
    return count, len(order)
