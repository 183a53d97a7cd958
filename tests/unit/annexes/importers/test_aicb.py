"""What AICB writes of a workload, and what becomes of it."""

from pathlib import Path

import pytest

from emulator.annexes.importers.importing import import_trace, importer_named
from emulator.annexes.importers.model import Fate, ImportedTrace, NodeResource
from emulator.errors import TraceError
from emulator.trace.meaning.model import CommKind
from tests.support.import_sources import AICB_HEADER, AICB_LAYERS, recognised, write_aicb, write_aicb_micro


def read(path: Path, ranks: int | None = None) -> ImportedTrace:
    return import_trace(importer_named("aicb"), path, ranks=ranks)


def write(folder: Path, *layers: str, header: str = AICB_HEADER) -> Path:
    path = folder / "workload.txt"
    path.write_text("\n".join([header, str(len(layers)), *layers]) + "\n")
    return path


def test_a_workload_becomes_a_trace_for_every_rank(tmp_path: Path) -> None:
    write_aicb(tmp_path)
    trace = read(tmp_path)
    assert len(trace.ranks) == 8
    facts = [(one.name, one.size_bytes, one.ranks) for one in trace.ranks[5].operations]
    tensor, expert, data, both = (4, 5), (5, 7), (1, 3, 5, 7), (1, 5)
    assert facts == [
        ("embedding_layer forward all_reduce", 65536, tensor),
        ("mlp_moelayer forward all_to_all", 32768, expert),
        ("attention_column forward all_gather", 25001, tensor),  # half of 50,001, rounded up
        ("attention_column backward reduce_scatter", 50000, tensor),
        ("mlp_moelayer backward all_to_all", 65536, expert),
        ("moe_grad_norm1 weights all_gather", 2048, both),
        ("grad_param_comm weights reduce_scatter", 2097152, data),
        ("grad_gather weights all_gather", 262144, data),
    ]


def test_groups_are_those_of_their_parallelism(tmp_path: Path) -> None:
    write_aicb(tmp_path)
    groups = {
        kind: {one.ranks for rank in read(tmp_path).ranks for one in rank.operations if one.group == kind}
        for kind in ("TP", "DP", "EP", "DP_EP")
    }
    assert groups == {
        "TP": {(0, 1), (2, 3), (4, 5), (6, 7)},
        "DP": {(0, 2, 4, 6), (1, 3, 5, 7)},
        "EP": {(0, 2), (1, 3), (4, 6), (5, 7)},
        "DP_EP": {(0, 4), (1, 5), (2, 6), (3, 7)},
    }


def test_layers_run_forward_then_backward_and_weights_beside(tmp_path: Path) -> None:
    layers = ("a 0 100 ALLREDUCE 8 200 ALLREDUCE 16 300 ALLREDUCE 32 1", "b 0 10 NONE 0 20 NONE 0 30 ALLREDUCE 64 1")
    header = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 all_gpus: 4"
    nodes = read(write(tmp_path, *layers, header=header)).ranks[0].nodes
    assert [(one.name, one.duration_ns, one.deps) for one in nodes] == [
        ("a forward", 100, ()),
        ("a forward all_reduce", 0, (1,)),
        ("b forward", 10, (2,)),
        ("b backward", 20, (3,)),
        ("b weights", 30, (4,)),
        ("b weights all_reduce", 0, (5,)),
        ("a backward", 200, (5,)),
        ("a backward all_reduce", 0, (7,)),
        ("a weights", 300, (8,)),
        ("a weights all_reduce", 0, (6, 9)),
    ]
    assert {one.place for one in nodes if one.operation is None} == {NodeResource.DEVICE}


def test_a_micro_benchmark_needs_the_number_of_ranks(tmp_path: Path) -> None:
    write_aicb_micro(tmp_path)
    with pytest.raises(TraceError, match="does not give its number of ranks: add --ranks N"):
        read(tmp_path)
    trace = read(tmp_path, 4)
    assert [(one.kind, one.size_bytes) for one in trace.ranks[3].operations] == [
        (CommKind.ALL_REDUCE, size) for size in (4096, 8192, 16384)
    ]
    assert [node.deps for node in trace.ranks[0].nodes] == [(), (1,), (2,)]


def test_fewer_ranks_than_stated_can_play_it(tmp_path: Path) -> None:
    write_aicb(tmp_path)
    trace = read(tmp_path, 4)
    assert len(trace.ranks) == 4
    assert "ranks as --ranks says: 4, not the 8 of the file" in {what for _, what, _ in trace.losses}
    with pytest.raises(TraceError, match="6 ranks cannot be divided by tensor 2, pipeline 1 and expert 2 parallelism"):
        read(tmp_path, 6)


def test_what_the_layers_do_not_say_is_counted(tmp_path: Path) -> None:
    header = AICB_HEADER.replace("pp: 1", "pp: 2").replace("checkpoints: 0", "checkpoints: 1 3")
    trace = read(write(tmp_path, *AICB_LAYERS, header=header))
    dropped = {what for fate, what, _ in trace.losses if fate is Fate.DROPPED}
    assert "transfers between pipeline stages: the layers do not say when" in dropped
    assert "forward passes that are repeated in the backward pass (checkpoints)" in dropped
    assert trace.ranks[7].operations[0].ranks == (6, 7)


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ("a 0 100 ALLREDUCE 8 200", "line 3: has 6 fields, a layer has 12"),
        ("a 0 1.5 NONE 0 1 NONE 0 1 NONE 0 1", "line 3: compute time '1.5' is not a whole number"),
        ("a 0 1 NONE 0 1 NONE -3 1 NONE 0 1", "line 3: size '-3' is not a whole number"),
        ("a 0 1 ALLREDUCES 8 1 NONE 0 1 NONE 0 1", "line 3: 'ALLREDUCES' is no collective of AICB; there are NONE"),
        ("a 0 1 ALLREDUCE_XY 8 1 NONE 0 1 NONE 0 1", "'ALLREDUCE_XY' is no collective of AICB"),
        ("a 0 1 NONE 0 1 NONE 0 1 NONE 0 1", "has neither compute time nor a collective"),
    ],
)
def test_damage_is_named_with_its_line(layer: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=said):
        read(write(tmp_path, layer))


def test_a_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, *AICB_LAYERS)
    path.write_text("\n".join(path.read_text().splitlines()[:-2]) + "\n")
    with pytest.raises(TraceError, match="line 2: announces 6 layers and has 4: the file is cut off"):
        read(path)


def test_too_many_nodes_are_refused_before_they_are_made(tmp_path: Path) -> None:
    path = write(tmp_path, *AICB_LAYERS * 20, header=AICB_HEADER.replace("all_gpus: 8", "all_gpus: 1048576"))
    with pytest.raises(TraceError, match=r"has 1,048,576 ranks of up to 720 nodes.*play it with fewer, --ranks N"):
        read(path)


DATA_LAYERS = ("a -1 100 NONE 0 200 NONE 0 300 ALLGATHER 64 1", "b -1 10 NONE 0 20 NONE 0 30 ALLREDUCE 128 1")


def test_data_parallelism_of_astra_sim_1_computes_weights_first(tmp_path: Path) -> None:
    trace = read(write(tmp_path, *DATA_LAYERS, header="DATA"), ranks=4)
    nodes = [(one.name, one.duration_ns, one.deps) for one in trace.ranks[3].nodes]
    assert nodes == [
        ("a forward", 100, ()),
        ("b forward", 10, (1,)),
        ("b weights", 30, (2,)),
        ("b weights all_reduce", 0, (3,)),
        ("b backward", 20, (3,)),
        ("a weights", 300, (5,)),
        ("a weights all_gather", 0, (4, 6)),
    ]
    sizes = [(one.size_bytes, one.ranks) for one in trace.ranks[3].operations]
    assert sizes == [(128, ()), (64, ())]  # an all-gather's size is the shard's there


@pytest.mark.parametrize("parallelism", ["HYBRID_TRANSFORMER", "MODEL", "HYBRID_DATA_MODEL"])
def test_other_parallelisms_of_astra_sim_1_are_refused_by_name(parallelism: str, tmp_path: Path) -> None:
    write(tmp_path, *DATA_LAYERS, header=parallelism)
    assert recognised(tmp_path) == "aicb"
    problem = f"line 1: is a workload of ASTRA-sim 1.0 with the parallelism {parallelism}, whose groups"
    with pytest.raises(TraceError, match=problem):
        read(tmp_path, ranks=4)


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("pp: NaN", "has 'pp: NaN', which is no name of a setting and its number"),
        ("pp: 1 1", "has '1 vpp:', which is no name of a setting and its number"),
        ("pp: 1 ep: 1", "has the setting ep twice"),
        ("pp: 1 checkpoints: 2 5", "does not name the 2 layers of checkpoints"),
    ],
)
def test_a_setting_without_its_number_is_refused(setting: str, problem: str, tmp_path: Path) -> None:
    header = AICB_HEADER.replace("checkpoints: 0 ", "").replace("pp: 1", setting, 1)
    with pytest.raises(TraceError, match=problem):
        read(write(tmp_path, *AICB_LAYERS, header=header))


def test_a_setting_that_is_not_known_is_counted(tmp_path: Path) -> None:
    trace = read(write(tmp_path, *AICB_LAYERS, header=f"{AICB_HEADER} mode: 1"))
    assert "the setting mode, which is not known" in {what for fate, what, _ in trace.losses if fate is Fate.DROPPED}


@pytest.mark.parametrize("size", ["", "comm_group_size,"])
def test_a_table_of_calls_is_refused_by_name(size: str, tmp_path: Path) -> None:
    header = f"comm_type,comm_group,{size}msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count"
    (tmp_path / "log.csv").write_text(f"{header}\nCommType.all_reduce,CommGroup.dp_group,4,4096,step,,,,,,,1\n")
    assert recognised(tmp_path) == "aicb"
    with pytest.raises(TraceError, match=r"log.csv: is AICB's table of the calls of one process \(CSV\)"):
        read(tmp_path, ranks=4)


def test_a_workload_of_astra_sim_1_needs_the_number_of_ranks(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="add --ranks N"):
        read(write(tmp_path, *DATA_LAYERS, header="DATA"))
