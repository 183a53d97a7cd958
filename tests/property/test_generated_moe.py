"""Any mixture of experts: a combine returns what was dispatched, totals are those of the nodes, and it ends."""

from collections import defaultdict
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.annexes.workloads.moe import Copies, DispatchType, MixtureOfExperts, Routing
from emulator.annexes.workloads.moe_workload import moe_workload
from emulator.annexes.workloads.totals import SyntheticWorkload
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.synthetic import WorkNode
from tests.support.full import examples
from tests.support.virtual_world import stuck_nodes


@st.composite
def mixtures(draw: st.DrawFn) -> MixtureOfExperts:
    small = st.integers(1, 3)
    expert = draw(small)
    groups = draw(st.sampled_from([1, 2, 4]))
    experts = expert * groups * draw(st.integers(1, 3))
    groups_per_token = draw(st.integers(1, groups))
    return MixtureOfExperts(
        expert=expert,
        data=draw(small),
        layers=draw(small),
        tokens=draw(st.integers(1, 20)),
        micro_batches=draw(small),
        hidden=draw(st.integers(1, 300)),
        experts=experts,
        top_k=draw(st.integers(1, experts // groups * groups_per_token)),
        expert_hidden=draw(st.integers(1, 50)),
        shared_experts=draw(st.integers(0, 2)),
        routing=draw(st.sampled_from(Routing)),
        zipf_exponent=draw(st.floats(0, 6)),
        expert_groups=groups,
        groups_per_token=groups_per_token,
        copies=draw(st.sampled_from(Copies)),
        seed=draw(st.integers(0, 1 << 32)),
        dispatch=draw(st.sampled_from(DispatchType)),
        header_bytes=draw(st.integers(0, 16)),
        forward_only=draw(st.booleans()),
        shard_optimizer=draw(st.booleans()),
        device_tflops=draw(st.floats(1e-6, 1e-3)),
    )


def _exchanges(workload: SyntheticWorkload) -> Mapping[tuple[str, int], list[WorkNode]]:
    """(name, group) → the nodes of its members, by rank."""
    found: dict[tuple[str, int], list[WorkNode]] = defaultdict(list)
    for rank in range(workload.ranks):
        for node in workload.nodes(rank):
            if node.kind is CommKind.ALL_TO_ALL:
                found[node.name, node.group].append(node)
    return found


def _rows(nodes: list[WorkNode]) -> list[tuple[int, ...]]:
    return [node.send_splits or () for node in nodes]


def _columns(nodes: list[WorkNode]) -> list[tuple[int, ...]]:
    return list(zip(*_rows(nodes), strict=True))


@pytest.mark.parametrize("routing", Routing)
def test_for_200_seeds_column_sums_of_a_dispatch_are_row_sums_of_its_combine(routing: Routing) -> None:
    for seed in range(200):
        model = MixtureOfExperts(
            expert=4, experts=16, top_k=3, tokens=24, layers=1, hidden=7, expert_groups=4, groups_per_token=2,
            dispatch=DispatchType.BF16, routing=routing, seed=seed, forward_only=True,
        )  # fmt: skip
        found = _exchanges(moe_workload(model))
        dispatch, combine = (found[f"forward.0.layer0.{name}", 1] for name in ("dispatch", "combine"))
        assert [sum(column) for column in _columns(dispatch)] == [node.size_bytes for node in combine]
        assert [node.size_bytes for node in dispatch] == [24 * 3 * 7 * 2] * 4
        assert sum(node.size_bytes for node in combine) == 4 * 24 * 3 * 7 * 2


@given(mixtures())
@settings(max_examples=examples(40), deadline=None)
def test_a_combine_is_the_transpose_of_its_dispatch_and_members_agree(model: MixtureOfExperts) -> None:
    found = _exchanges(moe_workload(model))
    for (name, group), nodes in found.items():
        assert _columns(nodes) == [node.recv_splits for node in nodes]
        assert [node.size_bytes for node in nodes] == [sum(row) for row in _rows(nodes)]
        if name.endswith("dispatch"):
            combine = found[name.removesuffix("dispatch") + "combine", group]
            for there, back in zip(_columns(nodes), _rows(combine), strict=True):
                copies = [size // model.dispatch_token_bytes for size in there]
                assert [count * model.combine_token_bytes for count in copies] == list(back)
    forward = {name for name, _ in found if name.startswith("forward")}
    assert len(forward) == (2 * model.layers * model.micro_batches if model.expert > 1 else 0)


@given(mixtures())
@settings(max_examples=examples(40), deadline=None)
def test_every_rank_can_play_to_the_end(model: MixtureOfExperts) -> None:
    assert stuck_nodes(moe_workload(model)) == []
