"""Checkpoints on loopback: as traffic with storage hosts, and as time without; nothing else of the trace changes."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from emulator._pb import et_pb2
from tests.support.command import answer, here, succeed
from tests.support.loopback import NET
from tests.support.trace_files import collective, file_operation, parse_trace, write

PARAMETERS = 100_000
RANKS = 4
PLAYED = 3  # two iterations and a warm-up
WRITTEN = 2 * PARAMETERS * 14  # two checkpoints
READ = PARAMETERS * (2 * 2 + 12)  # both data ranks read the weights, each its share of the states
TOPOLOGY = f"""hosts:
- {{name: ranks, per_rank: {NET}.0.0/24}}
- {{name: store0, address: {NET}.1.1, storage: true}}
- {{name: store1, address: {NET}.1.2, storage: true}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a generated checkpoint trace and a topology."""
    folder = tmp_path_factory.mktemp("storage")
    (folder / "store.yaml").write_text(TOPOLOGY)
    job = ("--model", PARAMETERS, "--tensor", 2, "--data", 2, "--zero-stage", 1, "--restart", "--steps", 2)
    answer("trace", "generate", "checkpoint", *job, "--call-bytes", "256K", "--out", "trace", cwd=folder)
    return folder


def run(folder: Path, out: str, *options: object, trace: str = "trace") -> dict[str, list[Any]]:
    """The samples of a run."""
    succeed("run", trace, "--iterations", 2, "--warmup", 1, *options, "--out", out, cwd=folder, quiet=True)
    return pq.read_table(folder / out / "samples.parquet").to_pydict()


def flows_of(run_folder: Path) -> Counter[tuple[int, int]]:
    flows = pq.read_table(run_folder / "flows.parquet").to_pydict()
    total: Counter[tuple[int, int]] = Counter()
    for src, dst, size in zip(flows["src"], flows["dst"], flows["bytes"], strict=True):
        total[src, dst] += size
    return total


def test_check_counts_and_names_what_is_stored(folder: Path) -> None:
    found = json.loads(here("trace", "check", "trace", "--json", cwd=folder).stdout)
    assert found["nodes_by_type"]["CHECKPOINT"] == 3 * RANKS
    assert found["storage"]["write"]["size_bytes"] == WRITTEN
    assert found["storage"]["read"]["size_bytes"] == READ
    assert found["communication_nodes"] == {"barrier": 3 * RANKS}


@pytest.mark.parametrize(("transport", "agents"), [("zmq", 2), ("roce", 5)])
def test_bytes_at_the_storage_hosts_are_the_closed_form(folder: Path, transport: str, agents: int) -> None:
    options = ("--topology", "store.yaml", "--transport", transport, "--agents", agents)
    samples = run(folder, f"run-{transport}", *options)
    total = flows_of(folder / f"run-{transport}")
    assert sum(size for (_, dst), size in total.items() if dst >= RANKS) == PLAYED * WRITTEN
    assert sum(size for (src, _), size in total.items() if src >= RANKS) == PLAYED * READ
    assert {(src, dst) for src, dst in total if max(src, dst) >= RANKS and total[src, dst]} == {
        *((rank, RANKS + rank % 2) for rank in range(RANKS)),
        *((RANKS + rank % 2, rank) for rank in range(RANKS)),
    }
    rows = list(
        zip(samples["kind"], samples["group_size"], samples["bytes_sent"], samples["bytes_received"], strict=True)
    )
    assert sum(sent for kind, _, sent, _ in rows if kind == "storage_write") == PLAYED * WRITTEN
    assert sum(received for kind, _, _, received in rows if kind == "storage_read") == PLAYED * READ
    assert {size for kind, size, _, _ in rows if kind != "barrier"} == {1}
    assert (folder / f"run-{transport}" / "report.html").stat().st_size > 0


def test_without_storage_hosts_it_is_time_with_a_warning(folder: Path) -> None:
    samples = run(folder, "run-time")
    assert set(samples["kind"]) == {"barrier"}
    manifest = json.loads((folder / "run-time" / "manifest.json").read_text())
    assert manifest["warnings"]["storage node played as its recorded time"] == len(calls(folder / "trace"))
    for rank in range(RANKS):
        before = parse_trace((folder / "trace" / f"checkpoint.{rank}.et").read_bytes())[1]
        after = parse_trace((folder / "run-time" / "trace" / f"checkpoint.{rank}.et").read_bytes())[1]
        others = [node.type != et_pb2.COMM_COLL_NODE for node in before]
        assert [node for node, is_other in zip(before, others, strict=True) if is_other] == [
            node for node, is_other in zip(after, others, strict=True) if is_other
        ]


def calls(trace: Path) -> list[et_pb2.Node]:
    """Nodes that transfer bytes."""
    nodes = [node for rank in range(RANKS) for node in parse_trace((trace / f"checkpoint.{rank}.et").read_bytes())[1]]
    return [node for node in nodes if node.storage.fs.size_bytes]


def test_an_anonymous_copy_keeps_sizes_and_no_path(folder: Path) -> None:
    succeed("trace", "anonymize", "trace", "anonymous", cwd=folder)
    sizes: list[list[int]] = []
    for name in ("trace/checkpoint", "anonymous/trace"):
        nodes = [node for rank in range(RANKS) for node in parse_trace((folder / f"{name}.{rank}.et").read_bytes())[1]]
        sizes.append([node.storage.fs.size_bytes for node in nodes if node.storage.fs.size_bytes])
    assert sizes[0] == sizes[1]
    assert not any(node.storage.fs.pathname for node in nodes)


def test_plan_names_the_storage_hosts(folder: Path) -> None:
    plan = json.loads(here("plan", "trace", "--topology", "store.yaml", "--json", cwd=folder).stdout)
    assert (plan["ranks"], plan["storage_endpoints"]) == (RANKS, 2)
    assert plan["network_bytes"] == WRITTEN + READ
    shown = here("plan", "trace", "--topology", "store.yaml", cwd=folder).stdout
    assert "rank 0 > store0:eth0" in shown


def test_measured_times_go_into_the_nodes_that_were_played(folder: Path) -> None:
    nodes = [
        et_pb2.Node(id=1, name="checkpoint", type=et_pb2.CHECKPOINT_NODE, duration_micros=90),
        file_operation(2, et_pb2.FsOp.FS_OP_WRITE, 40_000, ctrl_deps=[1], duration_micros=50),
        file_operation(3, et_pb2.FsOp.FS_OP_FSYNC, 0, ctrl_deps=[2], duration_micros=7),
        et_pb2.Node(id=4, name="batch", type=et_pb2.BATCH_NODE, duration_micros=5),
        file_operation(5, et_pb2.FsOp.FS_OP_PREAD, 30_000, data_deps=[4], duration_micros=60),
        collective(6, data_deps=[3, 5]),
    ]
    (folder / "real").mkdir()
    for rank in range(2):
        write(folder / "real" / f"real.{rank}.et", nodes)
    run(folder, "run-real", "--topology", "store.yaml", trace="real")
    before = (folder / "real" / "real.0.et").read_bytes()
    after = parse_trace((folder / "run-real" / "trace" / "real.0.et").read_bytes())[1]
    same = [old == new for old, new in zip(parse_trace(before)[1], after, strict=True)]
    assert same == [True, False, True, True, False, False]
    for old, new in ((nodes[1], after[1]), (nodes[4], after[4])):
        assert new.storage == old.storage
        said = {one.name: one for one in new.attr}
        assert said["charkha.traced_duration_micros"].uint64_val == old.duration_micros
        assert len(said["charkha.samples_ns"].uint64_list.values) == 2
    found = json.loads(here("trace", "check", "run-real/trace", "--json", cwd=folder).stdout)
    assert found["storage"]["write"] == {"operations": 2, "size_bytes": 80_000}
