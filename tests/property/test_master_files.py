"""Whatever bytes a master file holds, reading it gives what was written, or a TraceError.

CHARKHA_FUZZ_EXAMPLES sets how many damaged files are tried; CHARKHA_FUZZ_SEED chooses others.
"""

import os
import random
from pathlib import Path

from emulator.errors import TraceError
from emulator.trace.files.master import read_master, write_master
from emulator.trace.meaning.workload import build_workload
from tests.support.mutants import damaged_bytes
from tests.support.random_traces import random_traces

EXAMPLES = int(os.environ.get("CHARKHA_FUZZ_EXAMPLES", "1000"))
SEED = int(os.environ.get("CHARKHA_FUZZ_SEED", "1"))


def test_a_damaged_file_is_refused_or_was_not_damaged_where_it_matters(tmp_path: Path) -> None:
    traces, path = random_traces(7), tmp_path / "x.parquet"
    write_master(path, build_workload(traces), traces, name="x")
    whole, good = path.read_bytes(), read_master(path)
    rng, refused = random.Random(SEED), 0
    for _ in range(EXAMPLES):
        path.write_bytes(damaged_bytes(whole, rng))
        try:
            found = read_master(path)
        except TraceError:
            refused += 1
        else:
            assert (found.rows, found.description) == (good.rows, good.description)
    assert refused > EXAMPLES // 2
