"""The built-in algorithms by collective and name, and rings in several channels: `ring:channels=4`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

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
from emulator.trace.meaning.model import CommKind

MOST_CHANNELS = 64
"""Lanes that a tag of a transfer can name; NCCL has at most as many channels (MAXCHANNELS)."""


BUILT_IN: Mapping[CommKind, Mapping[str, Algorithm]] = {
    CommKind.ALL_REDUCE: {
        "ring": all_reduce.ring,
        "bidirectional_ring": all_reduce.bidirectional_ring,
        "halving_doubling": all_reduce.halving_doubling,
        "recursive_doubling": all_reduce.recursive_doubling,
        "double_binary_tree": all_reduce.double_binary_tree,
        "direct": all_reduce.direct,
        "hierarchical": hierarchical.all_reduce,
    },
    CommKind.ALL_GATHER: {
        "ring": ag_rs.all_gather_ring,
        "halving_doubling": ag_rs.all_gather_halving_doubling,
        "direct": ag_rs.all_gather_direct,
        "hierarchical": hierarchical.all_gather,
        "pat": aggregated_trees.all_gather_trees,
    },
    CommKind.REDUCE_SCATTER: {
        "ring": ag_rs.reduce_scatter_ring,
        "halving_doubling": ag_rs.reduce_scatter_halving_doubling,
        "direct": ag_rs.reduce_scatter_direct,
        "hierarchical": hierarchical.reduce_scatter,
        "pat": aggregated_trees.reduce_scatter_trees,
    },
    CommKind.ALL_TO_ALL: {
        "pairwise": all_to_all.pairwise,
        "parallel": all_to_all.parallel,
        "pxn": pxn.pxn,
    },
    CommKind.BROADCAST: {
        "tree": broadcast_reduce.broadcast_tree,
        "ring": broadcast_reduce.broadcast_ring,
        "parallel": broadcast_reduce.broadcast_parallel,
    },
    CommKind.REDUCE: {
        "tree": broadcast_reduce.reduce_tree,
        "ring": broadcast_reduce.reduce_ring,
        "parallel": broadcast_reduce.reduce_parallel,
    },
    CommKind.GATHER: {
        "tree": gather_scatter.gather_tree,
        "parallel": gather_scatter.gather_parallel,
    },
    CommKind.SCATTER: {
        "tree": gather_scatter.scatter_tree,
        "parallel": gather_scatter.scatter_parallel,
    },
    CommKind.BARRIER: {
        "dissemination": barrier.dissemination,
        "tree": barrier.tree,
    },
}
BY_LAYOUT = frozenset({"hierarchical", "pxn"})
"""Those that depend on where the members are, as rings in channels do."""
_IN_CHANNELS: Mapping[CommKind, Callable[..., Sequence[Lane]]] = {
    CommKind.ALL_REDUCE: channels.all_reduce,
    CommKind.ALL_GATHER: channels.all_gather,
    CommKind.REDUCE_SCATTER: channels.reduce_scatter,
}


def built_in(kind: CommKind, name: str) -> Algorithm | None:
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
    return partial(_IN_CHANNELS[kind], channels=count)


def channels_of(name: str) -> int | None:
    """Channels in the name of an algorithm; None if it names no number of channels that is possible."""
    digits = name.partition(":")[2].removeprefix("channels=")
    count = int(digits) if digits.isascii() and digits.isdigit() and "channels=" in name else 0
    return count if 1 <= count <= MOST_CHANNELS else None
