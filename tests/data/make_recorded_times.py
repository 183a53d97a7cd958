"""Writes recorded-times.parquet: the raw times of real runs, class by class, for tests that compare groups of runs.

    python -m tests.data.make_recorded_times SET=FOLDER ...

Each FOLDER holds the run folders of a SET. The committed file has four sets, recorded on a machine of two cores that
other work kept busy, runs of several sets in turns:

    zmq     30 runs of   run lab/examples/transformer-8r --scale-bytes 1/64 --iterations 10 --compute skip
    roce    30 runs of   bench all_reduce -n 4 -b 16K -e 256K -f 4 --iterations 100 --transport roce --flow-rate 200Mbit
    paced   24 runs of   bench all_reduce -n 2 -b 4K -e 32K --iterations 40 --transport roce --flow-rate 20Mbit
    slower   7 runs of   the same with --flow-rate 18Mbit

Of zmq, only the first iterations are kept, to keep the file small.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from emulator.results.comparison.groups import read_groups

FILE = Path(__file__).parent / "recorded-times.parquet"
KEPT_ITERATIONS = {"zmq": 4}
SCHEMA = pa.schema(
    [
        ("set", pa.dictionary(pa.int8(), pa.string())),
        ("run", pa.int8()),
        ("collective", pa.dictionary(pa.int8(), pa.string())),
        ("members", pa.int8()),
        ("size_bytes", pa.int32()),
        ("algorithm", pa.dictionary(pa.int8(), pa.string())),
        ("iteration", pa.int8()),
        ("time_ns", pa.int32()),
    ]
)


def _batches(name: str, folder: str) -> Iterator[pa.RecordBatch]:
    (group,) = read_groups([folder])
    for number, run in enumerate(group.runs):
        for key, times in sorted(run.measurements.classes.items()):
            kept = times.iteration < KEPT_ITERATIONS.get(name, 1_000)
            count = int(kept.sum())
            columns = [[name], [number], [key.collective], [key.members], [key.size_bytes], [key.algorithm]]
            arrays = [column * count for column in columns] + [
                times.iteration[kept].tolist(),
                times.time_ns[kept].tolist(),
            ]
            yield pa.RecordBatch.from_arrays(
                [pa.array(array, field.type) for array, field in zip(arrays, SCHEMA, strict=True)], schema=SCHEMA
            )


def main() -> None:
    """Write the file anew."""
    sets = [argument.split("=", 1) for argument in sys.argv[1:]]
    table = pa.Table.from_batches([batch for name, folder in sets for batch in _batches(name, folder)])
    pq.write_table(table.unify_dictionaries(), FILE, compression="zstd", compression_level=19)


if __name__ == "__main__":
    main()
