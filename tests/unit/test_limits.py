"""docs/limits.md says what the modules enforce."""

from pathlib import Path

import pytest

from agents.reporter import LARGEST_BATCH
from emulator.annexes.bench_kit.audit.collect import MAX_FLOWS
from emulator.annexes.bench_kit.audit.pcap import LARGEST_FRAME
from emulator.annexes.importers.documents import MOST_MEMBERS
from emulator.annexes.importers.flight_recorder_dumps import MAX_DEPTH, MAX_MEMO, VALUES_PER_BYTE
from emulator.annexes.importers.text_files import MAX_FILE_BYTES, MAX_LINE_BYTES
from emulator.annexes.msccl.program import MAX_CHUNKS, MAX_GPUS, MAX_INSTRUCTIONS
from emulator.annexes.service.catalogue import MOST_SPEC_VALUES
from emulator.annexes.service.model import LARGEST_SPEC_BYTES
from emulator.control.conversation import LARGEST_MESSAGE_BYTES
from emulator.controller.roster.control_service import LARGEST_GREETING_BYTES
from emulator.host.files import MOST_BYTES, MOST_SECRET_BYTES
from emulator.planner.algorithms import MAX_ALGORITHM_BYTES
from emulator.results.run_folder.reader import LEAST_SAMPLE_BYTES, MOST_ROWS
from emulator.schema import MOST_JSON_VALUES
from emulator.topology.document import MAX_YAML_BYTES, MOST_VALUES
from emulator.trace.files.compression import MAX_UNFOLD_RATIO, UNFOLD_ALLOWANCE_BYTES, ZSTD_WINDOW_LOG
from emulator.trace.files.et import MOST_DEPENDENCIES, MOST_DEPENDENCIES_A_NODE
from emulator.trace.files.frames import MAX_RECORD_BYTES
from emulator.trace.files.json_formats import MAX_OBJECT_CHARACTERS
from emulator.trace.files.records import MOST_ATTRIBUTES, MOST_ELEMENTS
from emulator.trace.meaning.meaning import MAX_SIZE_BYTES
from emulator.trace.synthetic.sweep import MAX_SIZES
from emulator.trace.synthetic.synthetic import LARGEST_JOB_NODES

KIB, MIB, GIB, PIB = 1 << 10, 1 << 20, 1 << 30, 1 << 50
PAGE = Path(__file__).parents[2] / "docs/limits.md"


@pytest.mark.parametrize(
    ("row", "limits"),
    [
        ("message of the control stream", [f"{LARGEST_MESSAGE_BYTES // MIB} MiB"]),
        ("messages of an agent that has not", [f"{LARGEST_GREETING_BYTES // KIB} KiB"]),
        ("messages queued", [f"{LARGEST_BATCH:,} completions"]),
        ("YAML file", [f"{MAX_YAML_BYTES // MIB} MiB", f"{MOST_VALUES:,} values"]),
        ("run spec of a user", [f"{LARGEST_SPEC_BYTES // KIB} KiB", f"{MOST_SPEC_VALUES:,} values"]),
        ("workload of", [f"{LARGEST_JOB_NODES:,} nodes"]),
        ("sizes of a sweep", [f"{MAX_SIZES:,}"]),
        (
            "trace file, compressed",
            [
                f"{MAX_UNFOLD_RATIO} times",
                f"{UNFOLD_ALLOWANCE_BYTES // MIB} MiB",
                f"{(1 << ZSTD_WINDOW_LOG) // MIB} MiB",
            ],
        ),
        (
            "record of an ET file",
            [f"{MAX_RECORD_BYTES // MIB} MiB", f"{MOST_ELEMENTS:,} dep", f"{MOST_ATTRIBUTES:,} attributes"],
        ),
        ("dependencies of a rank", [f"{MOST_DEPENDENCIES:,}", f"{MOST_DEPENDENCIES_A_NODE} for each node"]),
        ("JSON documents in an archive", [f"{MOST_MEMBERS:,}"]),
        ("object of a JSON trace", [f"{MAX_OBJECT_CHARACTERS // MIB} Mi characters"]),
        ("`comm_group.json`, other JSON", [f"{MOST_BYTES // MIB} MiB", f"{MOST_JSON_VALUES:,} values"]),
        ("identity, key, token", [f"{MOST_SECRET_BYTES // MIB} MiB"]),
        ("samples of a stored run", [f"{MOST_ROWS:,} rows", f"one for every {LEAST_SAMPLE_BYTES} bytes"]),
        ("size of a communication", [f"{MAX_SIZE_BYTES // PIB} PiB"]),
        ("text file of an importer", [f"{MAX_FILE_BYTES // MIB} MiB", f"lines of {MAX_LINE_BYTES // MIB} MiB"]),
        ("pickle", [f"{MAX_MEMO:,} references", f"{MAX_DEPTH} levels", f"{VALUES_PER_BYTE} values per byte"]),
        (
            "MSCCL XML",
            [
                f"{MAX_ALGORITHM_BYTES // MIB} MiB",
                f"{MAX_INSTRUCTIONS:,} elements",
                f"{MAX_GPUS:,} GPUs",
                f"{MAX_CHUNKS:,} chunks",
            ],
        ),
        ("record of a pcap file", [f"{LARGEST_FRAME // KIB} KiB"]),
        ("capture |", [f"{MAX_FLOWS:,} flows"]),
    ],
)
def test_the_table_has_the_limits_that_apply(row: str, limits: list[str]) -> None:
    (line,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {row}")]
    assert [limit for limit in limits if limit not in line] == []
