"""The built-in algorithms by collective and name, and rings in several channels: `ring:channels=4`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from emulator.errors import PlanError
from emulator.planner.collectives import (
    aggregated_trees,
    all_reduce,
    all_to_all,
    barrier,
    broadcast_reduce,
    channels,
    gather_scatter,
    hierarchical,
    pxn,
)
from emulator.planner.collectives import all_gather_reduce_scatter as ag_rs
from emulator.planner.collectives.trees import binomial, chain, star
from emulator.planner.schedule import Algorithm, Collective, Lane
from emulator.trace.model import CommKind

ByteCount: TypeAlias = Callable[[Collective], tuple[int, int]]
MOST_CHANNELS = 64
"""Lanes that a tag of a transfer can name; NCCL has at most as many channels (MAXCHANNELS)."""


class BuiltIn(NamedTuple):
    """A built-in algorithm.

    Attributes:
        count_bytes: its closed form of (bytes sent, bytes received) by a member.
        by_layout: both depend on where the members are.
    """

    run: Algorithm
    count_bytes: ByteCount
    by_layout: bool = False


BUILT_IN: Mapping[CommKind, Mapping[str, BuiltIn]] = {
    CommKind.ALL_REDUCE: {
        "ring": BuiltIn(all_reduce.ring, all_reduce.ring_bytes),
        "bidirectional_ring": BuiltIn(all_reduce.bidirectional_ring, all_reduce.bidirectional_ring_bytes),
        "halving_doubling": BuiltIn(all_reduce.halving_doubling, all_reduce.halving_doubling_bytes),
        "recursive_doubling": BuiltIn(all_reduce.recursive_doubling, all_reduce.recursive_doubling_bytes),
        "double_binary_tree": BuiltIn(all_reduce.double_binary_tree, all_reduce.double_binary_tree_bytes),
        "direct": BuiltIn(all_reduce.direct, all_reduce.direct_bytes),
        "hierarchical": BuiltIn(hierarchical.all_reduce, hierarchical.all_reduce_bytes, by_layout=True),
    },
    CommKind.ALL_GATHER: {
        "ring": BuiltIn(ag_rs.all_gather_ring, ag_rs.all_gather_bytes),
        "halving_doubling": BuiltIn(ag_rs.all_gather_halving_doubling, ag_rs.all_gather_bytes),
        "direct": BuiltIn(ag_rs.all_gather_direct, ag_rs.all_gather_bytes),
        "hierarchical": BuiltIn(hierarchical.all_gather, hierarchical.all_gather_bytes, by_layout=True),
        "pat": BuiltIn(aggregated_trees.all_gather_trees, ag_rs.all_gather_bytes),
    },
    CommKind.REDUCE_SCATTER: {
        "ring": BuiltIn(ag_rs.reduce_scatter_ring, ag_rs.reduce_scatter_ring_bytes),
        "halving_doubling": BuiltIn(ag_rs.reduce_scatter_halving_doubling, ag_rs.reduce_scatter_halving_doubling_bytes),
        "direct": BuiltIn(ag_rs.reduce_scatter_direct, ag_rs.reduce_scatter_direct_bytes),
        "hierarchical": BuiltIn(hierarchical.reduce_scatter, hierarchical.reduce_scatter_bytes, by_layout=True),
        "pat": BuiltIn(aggregated_trees.reduce_scatter_trees, aggregated_trees.reduce_scatter_trees_bytes),
    },
    CommKind.ALL_TO_ALL: {
        "pairwise": BuiltIn(all_to_all.pairwise, all_to_all.all_to_all_bytes),
        "parallel": BuiltIn(all_to_all.parallel, all_to_all.all_to_all_bytes),
        "pxn": BuiltIn(pxn.pxn, pxn.pxn_bytes, by_layout=True),
    },
    CommKind.BROADCAST: {
        "tree": BuiltIn(broadcast_reduce.broadcast_tree, partial(broadcast_reduce.bytes_down, tree=binomial)),
        "ring": BuiltIn(broadcast_reduce.broadcast_ring, partial(broadcast_reduce.bytes_down, tree=chain)),
        "parallel": BuiltIn(broadcast_reduce.broadcast_parallel, partial(broadcast_reduce.bytes_down, tree=star)),
    },
    CommKind.REDUCE: {
        "tree": BuiltIn(broadcast_reduce.reduce_tree, partial(broadcast_reduce.bytes_up, tree=binomial)),
        "ring": BuiltIn(broadcast_reduce.reduce_ring, partial(broadcast_reduce.bytes_up, tree=chain)),
        "parallel": BuiltIn(broadcast_reduce.reduce_parallel, partial(broadcast_reduce.bytes_up, tree=star)),
    },
    CommKind.GATHER: {
        "tree": BuiltIn(gather_scatter.gather_tree, partial(gather_scatter.gather_bytes, tree=binomial)),
        "parallel": BuiltIn(gather_scatter.gather_parallel, partial(gather_scatter.gather_bytes, tree=star)),
    },
    CommKind.SCATTER: {
        "tree": BuiltIn(gather_scatter.scatter_tree, partial(gather_scatter.scatter_bytes, tree=binomial)),
        "parallel": BuiltIn(gather_scatter.scatter_parallel, partial(gather_scatter.scatter_bytes, tree=star)),
    },
    CommKind.BARRIER: {
        "dissemination": BuiltIn(barrier.dissemination, barrier.dissemination_bytes),
        "tree": BuiltIn(barrier.tree, barrier.tree_bytes),
    },
}


_IN_CHANNELS: Mapping[CommKind, Callable[..., Sequence[Lane]]] = {
    CommKind.ALL_REDUCE: channels.all_reduce,
    CommKind.ALL_GATHER: channels.all_gather,
    CommKind.REDUCE_SCATTER: channels.reduce_scatter,
}


def built_in(kind: CommKind, name: str) -> BuiltIn | None:
    """The built-in algorithm of this name; None if there is none. REDUCE_SCATTER_BLOCK has none of its own.

    Raises:
        PlanError: the name has a parameter that the algorithm does not take.
    """
    found = BUILT_IN[kind].get(name)
    if found is not None:
        return found
    base, colon, parameter = name.partition(":")
    if not colon or base not in BUILT_IN[kind]:
        return None
    count = channels_of(name)
    if count is None or base != "ring" or kind not in _IN_CHANNELS:
        kinds = ", ".join(kind.label for kind in _IN_CHANNELS)
        raise PlanError(
            f"{kind.label}={name}: {parameter!r} is no parameter; ring of {kinds} takes channels=1 … {MOST_CHANNELS}: "
            "ring:channels=4"
        )
    return BuiltIn(
        partial(_IN_CHANNELS[kind], channels=count), partial(channels.count_bytes, channels=count), by_layout=True
    )


def channels_of(name: str) -> int | None:
    """Channels in the name of an algorithm; None if it names no number of channels that is possible."""
    digits = name.partition(":")[2].removeprefix("channels=")
    count = int(digits) if digits.isascii() and digits.isdigit() and "channels=" in name else 0
    return count if 1 <= count <= MOST_CHANNELS else None
