"""Traffic patterns of KVBench, and what becomes of them."""

from pathlib import Path

import pytest
import yaml

from emulator.annexes.importers.importing import import_trace, importer_named
from emulator.annexes.importers.model import Fate, ImportedTrace, NodeResource
from emulator.errors import TraceError
from emulator.trace.meaning.model import CommKind
from tests.support.import_sources import KVBENCH_CONFIG, recognised, write_kvbench

KIB, MIB = 1 << 10, 1 << 20


def read(path: Path) -> ImportedTrace:
    return import_trace(importer_named("kvbench"), path)


def test_every_cell_is_a_message(tmp_path: Path) -> None:
    write_kvbench(tmp_path)
    trace = read(tmp_path)
    messages = {
        (rank.rank, one.peer, one.tag): one.size_bytes
        for rank in trace.ranks
        for one in rank.operations
        if one.kind is CommKind.SEND
    }
    assert messages == {
        (0, 2, 0): MIB,
        (0, 3, 0): MIB,
        (1, 2, 0): MIB,
        (1, 3, 0): MIB,
        (2, 3, 0): 5 * KIB,
        (0, 2, 1): 2560,
        (1, 3, 1): 100,
        (3, 1, 1): 7,
    }
    assert trace.losses.number(Fate.DROPPED) == 1  # 5K from rank 3 to itself


def test_senders_meet_sleep_send_and_go_on_and_receivers_wait_for_nothing(tmp_path: Path) -> None:
    write_kvbench(tmp_path)
    ranks = read(tmp_path).ranks
    nodes = ranks[0].nodes
    assert [(one.name, one.deps, one.duration_ns) for one in nodes] == [
        ("barrier of senders", (), 0),
        ("sleep", (1,), 500_000),
        ("pattern 0", (2,), 0),
        ("pattern 0", (2,), 0),
        ("barrier of senders", (3, 4), 0),
        ("pattern 1", (5,), 0),
        ("sleep", (6,), 250_000),
    ]
    assert nodes[0].operation is not None
    assert nodes[0].operation.ranks == (0, 1, 2)
    assert nodes[1].place is NodeResource.CPU
    operations = [(node.operation, node.deps) for rank in ranks for node in rank.nodes]
    receives = [deps for operation, deps in operations if operation and operation.kind is CommKind.RECV]
    assert receives == [()] * 8


def test_a_single_matrix_is_a_pattern(tmp_path: Path) -> None:
    path = tmp_path / "matrix.txt"
    path.write_text("0 1.5K\n2m 0\n")
    assert recognised(path) == "kvbench"
    assert [[one.size_bytes for one in rank.operations if one.kind is CommKind.SEND] for rank in read(path).ranks] == [
        [1536],
        [2 * MIB],
    ]


def test_the_form_with_one_pattern_is_read(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("0 8\n0 0\n")
    config = 'iters: 50\ntraffic_pattern:\n  matrix_file: "/x/m.txt"\n  shards: 4\n  xfer_op: "READ"\n'
    (tmp_path / "config.yaml").write_text(config)
    trace = read(tmp_path)
    assert [one.size_bytes for one in trace.ranks[0].operations] == [8]
    assert "shards of a buffer: one message each cell" in {what for _, what, _ in trace.losses}


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ("0 1\n", "matrix_0.txt: has 1 rows of 2 cells: expected a square matrix"),
        ("0 1\n0 0 0\n", "matrix_0.txt, line 2: has 3 cells; the first row has 2"),
        ("0 x\n0 0\n", "matrix_0.txt, line 1: 'x' is not a size: bytes, or a number with K, M or G"),
        ("0 -1\n0 0\n", "'-1' is not a size"),
        ("0 0.5\n0 0\n", "'0.5' is not a size"),
        ("0 9999999999G\n0 0\n", "'9999999999G' is not a size"),
        ("0 1\n0 0\n", "matrix_1.txt: is of 4 ranks, the first matrix is of 2"),
    ],
)
def test_a_damaged_matrix_is_named_with_its_line(matrix: str, said: str, tmp_path: Path) -> None:
    write_kvbench(tmp_path)
    (tmp_path / "matrix_0.txt").write_text(matrix)
    with pytest.raises(TraceError, match=said):
        read(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("0.0005", "-1", "pattern 0: sleeps -1.0 s"),
        ("0.0005", ".inf", "line 5: cannot be used: inf is not a finite number"),
        ("0.0005", "soon", "sleep_before_launch_sec"),
        ("matrix_0.txt", "other.txt", "pattern 0: the matrix 'other.txt' is not next to the file"),
        ("/elsewhere/matrices/matrix_0.txt", "/etc/passwd", "the matrix 'passwd' is not next to the file"),
        ("isl: 38328", "isl: [", "metadata.yaml, line .: is not valid YAML"),
        ("isl: 38328", "isl: &a [x]\n    b: *a", "uses an alias"),
    ],
)
def test_a_damaged_configuration_is_named(old: str, new: str, said: str, tmp_path: Path) -> None:
    write_kvbench(tmp_path)
    (tmp_path / "metadata.yaml").write_text(KVBENCH_CONFIG.replace(old, new, 1))
    with pytest.raises(TraceError, match=said):
        read(tmp_path)


def test_nothing_to_send_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "matrix.txt"
    path.write_text("0 0\n0 0\n")
    with pytest.raises(TraceError, match="sends nothing: all cells are 0"):
        read(path)


def test_several_matrices_need_a_configuration(tmp_path: Path) -> None:
    write_kvbench(tmp_path)
    (tmp_path / "metadata.yaml").unlink()
    with pytest.raises(TraceError, match="holds 2 matrices and no YAML file: name one file"):
        read(tmp_path)


def test_storage_of_newer_patterns_is_counted_and_their_decode_time_played(tmp_path: Path) -> None:
    """Of nixl's docs/storage-simulation.md: a pattern with storage, one of storage alone, one under another name."""
    write_kvbench(tmp_path)
    patterns = [
        {
            "matrix_file": "matrix_1.txt",
            "mem_type": "cpu",
            "decode_compute_sec": 0.002,
            "storage": {"read": [1, 0, 0, 0]},
        },
        {"mem_type": "cpu", "storage": {"write": ["1M", "1M", 0, 0]}},
        {"matrix": "matrices/matrix_0.txt", "mem_type": "cuda", "priority": 7},
    ]
    (tmp_path / "metadata.yaml").write_text(yaml.safe_dump({"traffic_patterns": patterns}))
    trace = read(tmp_path)
    assert [(one.name, one.duration_ns) for one in trace.ranks[0].nodes if one.name != "barrier of senders"] == [
        ("pattern 0", 0),
        ("sleep", 2_000_000),
        ("pattern 2", 0),
        ("pattern 2", 0),
    ]
    assert {what: tally.count for fate, what, tally in trace.losses if fate is Fate.DROPPED} == {
        "what the ranks of a pattern read from storage and write to it": 2,
        "patterns without a matrix: nothing is sent": 1,
        "'priority' of a pattern, which is not known": 1,
        "what a rank sends to itself": 1,
    }


def test_patterns_of_storage_alone_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("traffic_patterns:\n- {mem_type: cpu, storage: {read: [1M, 1M]}}\n")
    with pytest.raises(TraceError, match="has no pattern with a matrix: nothing is sent between ranks"):
        read(tmp_path / "a.yaml")
