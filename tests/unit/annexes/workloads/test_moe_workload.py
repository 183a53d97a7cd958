"""The nodes of a mixture of experts: what waits for what, and its groups."""

from dataclasses import replace

from emulator.annexes.workloads.moe import MixtureOfExperts, Routing
from emulator.annexes.workloads.moe_workload import moe_workload
from emulator.annexes.workloads.totals import GroupRole
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.synthetic import WorkNode

MODEL = MixtureOfExperts(expert=4, data=2, experts=8, top_k=2, tokens=16, layers=2, hidden=64, expert_hidden=32)


def _by_name(model: MixtureOfExperts, rank: int = 0) -> dict[str, WorkNode]:
    return {node.name: node for node in moe_workload(model).nodes(rank)}


def _deps(nodes: dict[str, WorkNode], name: str) -> set[str]:
    return {one.name for one in nodes.values() if one.node_id in nodes[name].deps}


def test_shared_experts_are_computed_while_tokens_travel() -> None:
    nodes, at = _by_name(MODEL), "forward.0.layer1"
    assert _deps(nodes, f"{at}.attention") == {"forward.0.layer0.experts", "forward.0.layer0.combine"}
    assert _deps(nodes, f"{at}.dispatch") == _deps(nodes, f"{at}.shared_experts") == {f"{at}.attention"}
    assert _deps(nodes, f"{at}.experts") == {f"{at}.dispatch", f"{at}.shared_experts"}
    assert _deps(nodes, f"{at}.combine") == {f"{at}.experts"}


def test_gradients_are_reduced_over_those_that_hold_the_same_parameters() -> None:
    nodes, workload = _by_name(MODEL, rank=5), moe_workload(MODEL)
    experts, dense = (nodes[f"gradients.layer0.{name}.all_reduce"] for name in ("experts", "dense"))
    assert workload.groups[experts.group] == (1, 5)
    assert experts.size_bytes == 2 * MODEL.expert_parameters
    assert (dense.group, dense.size_bytes) == (0, 2 * MODEL.dense_parameters)
    assert workload.groups[nodes["forward.0.layer0.dispatch"].group] == (4, 5, 6, 7)


def test_a_busy_expert_computes_longer() -> None:
    zipf = replace(MODEL, routing=Routing.ZIPF, zipf_exponent=3, device_tflops=1e-6)
    micros = [_by_name(zipf, rank)["forward.0.layer0.experts"].duration_micros for rank in range(4)]
    sent = [_by_name(zipf, rank)["forward.0.layer0.combine"].size_bytes for rank in range(4)]
    assert sorted(range(4), key=micros.__getitem__) == sorted(range(4), key=sent.__getitem__)
    assert max(micros) > 1.5 * min(micros)


def test_one_step_of_inference_has_no_gradients() -> None:
    step = moe_workload(replace(MODEL, forward_only=True))
    assert {entry.role for entry in step.totals.traffic} == {GroupRole.DISPATCH, GroupRole.COMBINE}
    assert [entry.operations for entry in step.totals.traffic] == [4, 4]
    assert not any("backward" in name or "optimizer" in name for name in (n.name for n in step.nodes(0)))


def test_a_sharded_optimizer_gathers_what_it_scattered() -> None:
    nodes = _by_name(replace(MODEL, shard_optimizer=True))
    scattered, gathered = nodes["gradients.layer1.dense.reduce_scatter"], nodes["parameters.layer1.dense.all_gather"]
    assert (scattered.kind, gathered.kind) == (CommKind.REDUCE_SCATTER, CommKind.ALL_GATHER)
    assert gathered.size_bytes * 8 == scattered.size_bytes


def test_experts_of_one_rank_exchange_nothing() -> None:
    alone = moe_workload(replace(MODEL, expert=1, data=1))
    assert alone.groups == {}
    assert all(node.kind is None for node in alone.nodes(0))
