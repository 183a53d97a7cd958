"""The built-in algorithms by collective and name, and rings in several channels: `ring:channels=4`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from emulator.errors import PlanError
from emulator.planner.collectives import all_gather_reduce_scatter as ag_rs
from emulator.planner.collectives import all_reduce, all_to_all, by_layout, rooted
from emulator.planner.schedule import Algorithm, Lane
from emulator.trace.meaning.model import CommKind
from emulator.units import digits

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
        "hierarchical": by_layout.hierarchical_all_reduce,
    },
    CommKind.ALL_GATHER: {
        "ring": ag_rs.all_gather_ring,
        "halving_doubling": ag_rs.all_gather_halving_doubling,
        "direct": ag_rs.all_gather_direct,
        "hierarchical": by_layout.hierarchical_all_gather,
        "pat": ag_rs.all_gather_trees,
    },
    CommKind.REDUCE_SCATTER: {
        "ring": ag_rs.reduce_scatter_ring,
        "halving_doubling": ag_rs.reduce_scatter_halving_doubling,
        "direct": ag_rs.reduce_scatter_direct,
        "hierarchical": by_layout.hierarchical_reduce_scatter,
        "pat": ag_rs.reduce_scatter_trees,
    },
    CommKind.ALL_TO_ALL: {
        "pairwise": all_to_all.pairwise,
        "parallel": all_to_all.parallel,
        "pxn": all_to_all.pxn,
    },
    CommKind.BROADCAST: {
        "tree": rooted.broadcast_tree,
        "ring": rooted.broadcast_ring,
        "parallel": rooted.broadcast_parallel,
    },
    CommKind.REDUCE: {
        "tree": rooted.reduce_tree,
        "ring": rooted.reduce_ring,
        "parallel": rooted.reduce_parallel,
    },
    CommKind.GATHER: {
        "tree": rooted.gather_tree,
        "parallel": rooted.gather_parallel,
    },
    CommKind.SCATTER: {
        "tree": rooted.scatter_tree,
        "parallel": rooted.scatter_parallel,
    },
    CommKind.BARRIER: {
        "dissemination": all_reduce.dissemination,
        "tree": all_reduce.barrier_tree,
    },
}
BY_LAYOUT = frozenset({"hierarchical", "pxn"})
"""Those that depend on where the members are, as rings in channels do."""
_IN_CHANNELS: Mapping[CommKind, Callable[..., Sequence[Lane]]] = {
    CommKind.ALL_REDUCE: by_layout.all_reduce_in_channels,
    CommKind.ALL_GATHER: by_layout.all_gather_in_channels,
    CommKind.REDUCE_SCATTER: by_layout.reduce_scatter_in_channels,
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
    count = digits(name.partition(":channels=")[2])
    return count if count is not None and 1 <= count <= MOST_CHANNELS else None
