"""The default table: the algorithm of a collective unless the user requests one. The first row that applies counts.

For small messages the number of steps decides, for large ones the bytes of the busiest member. The table follows
Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), with thresholds rounded for software endpoints.

Where ranks of a node reach each other through a scale-up domain, all rails are used as NCCL uses them: rings in
channels, each through another NIC, and PXN for all-to-all (NCCL's documentation, NCCL_P2P_PXN_LEVEL). Sizes from which
a ring is used stay those of the table: NCCL computes its own from latencies of GPUs, which no rank here has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from emulator.planner.built_in import MOST_CHANNELS
from emulator.planner.group_layout import GroupLayout
from emulator.trace.meaning.model import CommKind
from emulator.units import format_size

SMALL_GROUP = 4
PARALLEL_GROUP = 8
TINY_BYTES = 4 << 10
RING_BLOCK_BYTES = 64 << 10
CHAIN_BLOCK_BYTES = 128 << 10
PARALLEL_BLOCK_BYTES = 32 << 10


@dataclass(frozen=True, slots=True)
class _AlgorithmRule:
    algorithm: str
    condition: str
    applies: Callable[[int, int], bool]
    """(members, size_bytes) → whether the rule applies."""


def _tiny(members: int, size_bytes: int) -> bool:
    return members <= SMALL_GROUP and size_bytes <= TINY_BYTES


def _always(members: int, size_bytes: int) -> bool:
    return True


def _block_of_at_least(least: int, *, least_members: int = 0) -> Callable[[int, int], bool]:
    return lambda members, size_bytes: members >= least_members and size_bytes >= least * members


_DIRECT = _AlgorithmRule("direct", f"at most {SMALL_GROUP} members and {format_size(TINY_BYTES)}", _tiny)
_OTHERWISE_DOUBLING = _AlgorithmRule("halving_doubling", "otherwise", _always)
_OTHERWISE_TREE = _AlgorithmRule("tree", "otherwise", _always)
_REDUCTION = (
    _DIRECT,
    _AlgorithmRule("ring", "2 members", lambda members, _: members <= 2),
    _AlgorithmRule(
        "ring", f"size / members at least {format_size(RING_BLOCK_BYTES)}", _block_of_at_least(RING_BLOCK_BYTES)
    ),
    _OTHERWISE_DOUBLING,
)
_CHAIN = (
    _AlgorithmRule(
        "ring",
        f"3 members or more and size / members at least {format_size(CHAIN_BLOCK_BYTES)}",
        _block_of_at_least(CHAIN_BLOCK_BYTES, least_members=3),
    ),
    _OTHERWISE_TREE,
)

_TABLE: Mapping[CommKind, Sequence[_AlgorithmRule]] = {
    CommKind.ALL_REDUCE: (
        _DIRECT,
        _AlgorithmRule(
            "recursive_doubling", f"at most {format_size(TINY_BYTES)}", lambda _, size_bytes: size_bytes <= TINY_BYTES
        ),
        *_REDUCTION[1:],
    ),
    CommKind.ALL_GATHER: (
        _DIRECT,
        _AlgorithmRule("ring", "2 members", lambda members, _: members <= 2),
        _AlgorithmRule(
            "ring",
            f"shards of at least {format_size(RING_BLOCK_BYTES)}",
            lambda _, size_bytes: size_bytes >= RING_BLOCK_BYTES,
        ),
        _OTHERWISE_DOUBLING,
    ),
    CommKind.REDUCE_SCATTER: _REDUCTION,
    CommKind.ALL_TO_ALL: (
        _AlgorithmRule("parallel", f"at most {PARALLEL_GROUP} members", lambda members, _: members <= PARALLEL_GROUP),
        _AlgorithmRule(
            "parallel",
            f"size / members below {format_size(PARALLEL_BLOCK_BYTES)}",
            lambda members, size_bytes: size_bytes < PARALLEL_BLOCK_BYTES * members,
        ),
        _AlgorithmRule("pairwise", "otherwise", _always),
    ),
    CommKind.BROADCAST: _CHAIN,
    CommKind.REDUCE: _CHAIN,
    CommKind.GATHER: (
        _AlgorithmRule(
            "parallel",
            f"shards of at least {format_size(PARALLEL_BLOCK_BYTES)}",
            lambda _, size_bytes: size_bytes >= PARALLEL_BLOCK_BYTES,
        ),
        _OTHERWISE_TREE,
    ),
    CommKind.SCATTER: (
        _AlgorithmRule(
            "parallel",
            f"size / members at least {format_size(PARALLEL_BLOCK_BYTES)}",
            _block_of_at_least(PARALLEL_BLOCK_BYTES),
        ),
        _OTHERWISE_TREE,
    ),
    CommKind.BARRIER: (_AlgorithmRule("dissemination", "always", _always),),
}


def default_algorithm(kind: CommKind, *, members: int, size_bytes: int) -> str:
    """The algorithm of the table for a collective; for REDUCE_SCATTER_BLOCK, pass REDUCE_SCATTER."""
    return next(rule.algorithm for rule in _TABLE[kind] if rule.applies(members, size_bytes))


PXN = "pxn"


def on_scale_up_nodes(kind: CommKind, name: str, layout: GroupLayout, *, is_uneven: bool) -> str:
    """What replaces the algorithm of the table where all nodes of the group have a scale-up domain.

    Args:
        kind: REDUCE_SCATTER for REDUCE_SCATTER_BLOCK.
    """
    rails = max(map(len, layout.nodes))
    if len(layout.nodes) == 1 or rails == 1:
        return name
    if kind is CommKind.ALL_TO_ALL and not is_uneven:
        return PXN
    in_channels = kind in (CommKind.ALL_REDUCE, CommKind.ALL_GATHER, CommKind.REDUCE_SCATTER)
    return f"{name}:channels={min(rails, MOST_CHANNELS)}" if in_channels and name == "ring" else name


def default_table() -> Sequence[tuple[str, str, str]]:
    """(collective, condition, algorithm) as text, in the order in which rows are tried."""
    return [(kind.label, rule.condition, rule.algorithm) for kind, rules in _TABLE.items() for rule in rules]
