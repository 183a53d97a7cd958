"""The built-in algorithms by collective and name, and rings in several channels: `ring:channels=4`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

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
from emulator.planner.schedule import Algorithm, Lane
from emulator.trace.model import CommKind

MOST_CHANNELS = 64
"""Lanes that a tag of a transfer can name; NCCL has at most as many channels (MAXCHANNELS)."""


class BuiltIn(NamedTuple):
    """A built-in algorithm.

    Attributes:
        by_layout: it depends on where the members are.
    """

    run: Algorithm
    by_layout: bool = False


BUILT_IN: Mapping[CommKind, Mapping[str, BuiltIn]] = {
    CommKind.ALL_REDUCE: {
        "ring": BuiltIn(all_reduce.ring),
        "bidirectional_ring": BuiltIn(all_reduce.bidirectional_ring),
        "halving_doubling": BuiltIn(all_reduce.halving_doubling),
        "recursive_doubling": BuiltIn(all_reduce.recursive_doubling),
        "double_binary_tree": BuiltIn(all_reduce.double_binary_tree),
        "direct": BuiltIn(all_reduce.direct),
        "hierarchical": BuiltIn(hierarchical.all_reduce, by_layout=True),
    },
    CommKind.ALL_GATHER: {
        "ring": BuiltIn(ag_rs.all_gather_ring),
        "halving_doubling": BuiltIn(ag_rs.all_gather_halving_doubling),
        "direct": BuiltIn(ag_rs.all_gather_direct),
        "hierarchical": BuiltIn(hierarchical.all_gather, by_layout=True),
        "pat": BuiltIn(aggregated_trees.all_gather_trees),
    },
    CommKind.REDUCE_SCATTER: {
        "ring": BuiltIn(ag_rs.reduce_scatter_ring),
        "halving_doubling": BuiltIn(ag_rs.reduce_scatter_halving_doubling),
        "direct": BuiltIn(ag_rs.reduce_scatter_direct),
        "hierarchical": BuiltIn(hierarchical.reduce_scatter, by_layout=True),
        "pat": BuiltIn(aggregated_trees.reduce_scatter_trees),
    },
    CommKind.ALL_TO_ALL: {
        "pairwise": BuiltIn(all_to_all.pairwise),
        "parallel": BuiltIn(all_to_all.parallel),
        "pxn": BuiltIn(pxn.pxn, by_layout=True),
    },
    CommKind.BROADCAST: {
        "tree": BuiltIn(broadcast_reduce.broadcast_tree),
        "ring": BuiltIn(broadcast_reduce.broadcast_ring),
        "parallel": BuiltIn(broadcast_reduce.broadcast_parallel),
    },
    CommKind.REDUCE: {
        "tree": BuiltIn(broadcast_reduce.reduce_tree),
        "ring": BuiltIn(broadcast_reduce.reduce_ring),
        "parallel": BuiltIn(broadcast_reduce.reduce_parallel),
    },
    CommKind.GATHER: {
        "tree": BuiltIn(gather_scatter.gather_tree),
        "parallel": BuiltIn(gather_scatter.gather_parallel),
    },
    CommKind.SCATTER: {
        "tree": BuiltIn(gather_scatter.scatter_tree),
        "parallel": BuiltIn(gather_scatter.scatter_parallel),
    },
    CommKind.BARRIER: {
        "dissemination": BuiltIn(barrier.dissemination),
        "tree": BuiltIn(barrier.tree),
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
    return BuiltIn(partial(_IN_CHANNELS[kind], channels=count), by_layout=True)


def channels_of(name: str) -> int | None:
    """Channels in the name of an algorithm; None if it names no number of channels that is possible."""
    digits = name.partition(":")[2].removeprefix("channels=")
    count = int(digits) if digits.isascii() and digits.isdigit() and "channels=" in name else 0
    return count if 1 <= count <= MOST_CHANNELS else None
