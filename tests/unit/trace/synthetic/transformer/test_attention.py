"""Attention: what context-parallel ranks exchange, and when."""

from __future__ import annotations

from dataclasses import replace

from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.transformer.transformer import ContextExchange
from tests.support.transformer_nodes import ACTIVATION, MODEL, nodes_by_name, sizes, waits_for

RING = replace(MODEL, context=4, tensor=1, pipeline=1)
"""A rank has 256 tokens."""


def test_in_a_ring_scores_are_computed_while_the_next_keys_and_values_come() -> None:
    nodes, name = nodes_by_name(RING, 1), "forward.0.layer0.attention"
    sends = sizes(nodes, name, CommKind.SEND)
    assert sends == [(f".values.{step}.send", 2 * ACTIVATION // 4) for step in range(3)]
    assert {nodes[f"{name}.values.1.{kind}"].peer for kind in ("send", "recv")} == {2, 0}
    assert waits_for(nodes, f"{name}.values.0.send") == {f"{name}.queries"}
    assert waits_for(nodes, f"{name}.scores.0") == {f"{name}.queries"}
    assert waits_for(nodes, f"{name}.values.1.send") == {f"{name}.values.0.recv"}
    assert waits_for(nodes, f"{name}.scores.2") == {f"{name}.values.1.recv", f"{name}.scores.1"}
    assert waits_for(nodes, f"{name}.projection") == {f"{name}.scores.3"}


def test_backward_the_gradients_of_keys_and_values_go_round_after_them() -> None:
    nodes, name = nodes_by_name(RING, 1), "backward.0.layer0.attention"
    sends = [what for what, _ in sizes(nodes, name, CommKind.SEND)]
    assert sorted(sends) == sorted(f".{what}.{step}.send" for what in ("values", "gradients") for step in range(3))
    assert waits_for(nodes, f"{name}.gradients.1.send") == {f"{name}.scores.1", f"{name}.gradients.0.recv"}
    assert waits_for(nodes, f"{name}.queries") == {f"{name}.scores.3", f"{name}.gradients.2.recv"}


def test_context_ranks_can_gather_keys_and_values() -> None:
    nodes = nodes_by_name(replace(RING, context_exchange=ContextExchange.ALL_GATHER), 1)
    for direction in ("forward", "backward"):
        gather = nodes[f"{direction}.0.layer0.attention.values.all_gather"]
        assert gather.size_bytes == 2 * ACTIVATION // 4
    scatter = nodes["backward.0.layer0.attention.gradients.reduce_scatter"]
    assert scatter.size_bytes == 2 * ACTIVATION
    assert gather.group == scatter.group
