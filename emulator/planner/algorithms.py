"""Registry of collective algorithms: those that exist, the one that a collective gets, and its schedule.

Built-in algorithms are in emulator.planner.collectives. Other distributions add algorithms as entry points of the group
`charkha.collectives`, named COLLECTIVE.NAME (`all_reduce.my_name`); these are imported when first used. Those that were
read from files are known by the name under which runs list them; an annex reads them.

Unless the user requests one, the first row of the default table that applies counts. For small messages the number of
steps decides, for large ones the bytes of the busiest member. The table follows Thakur, Rabenseifner, Gropp, IJHPCA 19
(2005), with thresholds rounded for software endpoints.

Where ranks of a node reach each other through a scale-up domain, all rails are used as NCCL uses them: rings in
channels, each through another NIC, and PXN for all-to-all (NCCL's documentation, NCCL_P2P_PXN_LEVEL). Sizes from which
a ring is used stay those of the table: NCCL computes its own from latencies of GPUs, which no rank here has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from emulator.errors import PlanError
from emulator.planner.built_in import BUILT_IN, BY_LAYOUT, MOST_CHANNELS, built_in, channels_of
from emulator.planner.group_layout import GroupLayout
from emulator.planner.schedule import Algorithm, Collective, Lane
from emulator.plugins import PluginKind, load
from emulator.suggestions import did_you_mean
from emulator.trace.meaning.model import CommKind
from emulator.trace.meaning.names import COLLECTIVES, parse_collective
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


ENTRY_POINT_GROUP = "charkha.collectives"
POINT_TO_POINT = "direct"
"""The algorithm that sends and receives are listed with; there is no other."""


def algorithm_names(kind: CommKind) -> Sequence[str]:
    """All algorithms for this kind, built-in ones first; none is imported.

    Raises:
        PlanError: the kind is not a collective, or an installed entry point has an invalid name.
    """
    kind = canonical_kind(kind)
    loaded = (name for name, one in loaded_algorithms().items() if one.kind is kind)
    return [*BUILT_IN[kind], *installed_algorithms().get(kind, {}), *loaded]


def choose(
    kind: CommKind,
    *,
    members: int,
    size_bytes: int,
    overrides: Mapping[str, str],
    is_uneven: bool = False,
    layout: GroupLayout | None = None,
) -> str:
    """Name of the algorithm for a collective: the one that the user requested, else that of the default table.

    One that was read from a file is for one size of group, and perhaps some sizes of array, and pxn is for even
    all-to-all: others get the default.

    The numbers must be the same for all members: the largest size if sizes differ, as in an uneven all-to-all.

    Args:
        size_bytes: Chakra's comm_size.
        overrides: collective label → name, from `parse_overrides`; `reduce_scatter` also applies to
            reduce_scatter_block unless that has its own.
        is_uneven: an all-to-all with splits.
        layout: of a group whose nodes all have a scale-up domain; None for all others.

    Raises:
        PlanError: the kind is not a collective.
    """
    canonical = canonical_kind(kind)
    requested = overrides.get(kind.label) or overrides.get(canonical.label)
    loaded = loaded_algorithms().get(requested or "")
    if loaded is not None and (is_uneven or not loaded.fits(members=members, size_bytes=size_bytes)):
        requested = None
    if is_uneven and requested == PXN:
        requested = None
    if requested:
        return requested
    name = default_algorithm(canonical, members=members, size_bytes=size_bytes)
    return name if layout is None else on_scale_up_nodes(canonical, name, layout, is_uneven=is_uneven)


def depends_on_layout(kind: CommKind, name: str) -> bool:
    """Whether what an algorithm does depends on where the members are. Installed ones may, those from files do not.

    Raises:
        PlanError: the kind is not a collective, or the name has a parameter that the algorithm does not take.
    """
    if name in loaded_algorithms():
        return False
    found = built_in(canonical_kind(kind), name)
    return found is None or name in BY_LAYOUT or channels_of(name) is not None


def parse_overrides(items: Sequence[str]) -> dict[str, str]:
    """Collective label → algorithm name, from `--algorithm COLLECTIVE=NAME`; the last one for a collective counts.

    Raises:
        PlanError: an item does not have that form, or names an unknown collective or algorithm; the message lists those
            that exist.
    """
    overrides: dict[str, str] = {}
    for item in items:
        label, equals, name = item.partition("=")
        if not equals:
            raise PlanError(f"--algorithm {item!r}: write COLLECTIVE=NAME: all_reduce=ring")
        try:
            kind = parse_collective(label)
        except ValueError as error:
            raise PlanError(f"--algorithm {item!r}: {error}") from None
        _require(canonical_kind(kind), name)
        overrides[kind.label] = name
    return overrides


def schedule(name: str, collective: Collective) -> Sequence[Lane]:
    """Lanes of this member; none if nothing is transferred (a group of one, or no bytes).

    Raises:
        PlanError: there is no such algorithm, splits do not fit the group, or the entry point is broken.
    """
    kind = canonical_kind(collective.kind)
    if collective.send_splits is not None or collective.recv_splits is not None:
        _check_splits(collective)
    elif collective.size_bytes == 0 and kind is not CommKind.BARRIER:
        _require(kind, name)
        return ()
    if collective.members == 1:
        _require(kind, name)
        return ()
    found = built_in(kind, name)
    return found(collective) if found else _installed(kind, name)(collective)


@cache
def installed_algorithms() -> Mapping[CommKind, Mapping[str, EntryPoint]]:
    """Entry points of the group `charkha.collectives` by kind and name; read once.

    Raises:
        PlanError: the name of an entry point is not COLLECTIVE.NAME, or is already taken.
    """
    found: dict[CommKind, dict[str, EntryPoint]] = {}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        label, _, name = point.name.partition(".")
        if label not in COLLECTIVES or not name:
            raise _broken(point, f"its name must be COLLECTIVE.NAME with one of {', '.join(COLLECTIVES)}")
        kind = canonical_kind(COLLECTIVES[label])
        known = found.setdefault(kind, {})
        if name in BUILT_IN[kind] or known.get(name, point).value != point.value:
            raise _broken(point, f"{kind.label} already has an algorithm {name!r}")
        known[name] = point
    return found


def canonical_kind(kind: CommKind) -> CommKind:
    """The kind whose algorithms apply: reduce_scatter_block uses those of reduce_scatter.

    Raises:
        PlanError: the kind is not a collective.
    """
    if not kind.is_collective:
        raise PlanError(f"{kind.label} is not a collective: it has no algorithm")
    return CommKind.REDUCE_SCATTER if kind is CommKind.REDUCE_SCATTER_BLOCK else kind


def _require(kind: CommKind, name: str) -> None:
    loaded = loaded_algorithms().get(name)
    if loaded is not None and loaded.kind is not kind:
        raise PlanError(f"{loaded.path}: computes {loaded.kind.label}, not {kind.label}")
    if loaded is not None or built_in(kind, name):  # avoids reading the entry points, which takes milliseconds
        return
    known = algorithm_names(kind)
    if name not in known:
        advice = did_you_mean(name, known) or f"; there are {', '.join(known)}"
        raise PlanError(f"{kind.label} has no algorithm {name!r}{advice}")


def _installed(kind: CommKind, name: str) -> Algorithm:
    _require(kind, name)
    loaded = loaded_algorithms().get(name)
    return loaded.run if loaded is not None else _load(installed_algorithms()[kind][name])


def _load(point: EntryPoint) -> Algorithm:
    try:
        algorithm = point.load()
    except Exception as problem:  # foreign code can raise anything; the message must name it
        raise _broken(point, f"{type(problem).__name__}: {problem}") from problem
    if not callable(algorithm):
        raise _broken(point, "it must name a function that takes a Collective")
    return cast(Algorithm, algorithm)


def _broken(point: EntryPoint, problem: str) -> PlanError:
    owner = f" of {point.dist.name}" if point.dist else ""
    return PlanError(f"entry point {point.name!r} ({point.value}){owner} in {ENTRY_POINT_GROUP} is unusable: {problem}")


def _check_splits(collective: Collective) -> None:
    if collective.kind is not CommKind.ALL_TO_ALL:
        raise PlanError(f"{collective.kind.label} takes no splits")
    for name, splits in (("send_splits", collective.send_splits), ("recv_splits", collective.recv_splits)):
        if splits is None or len(splits) != collective.members:
            found = "are missing" if splits is None else f"have {len(splits)} entries"
            raise PlanError(f"all_to_all of {collective.members} members: {name} {found}; one per member is needed")
        if min(splits) < 0:
            raise PlanError(f"all_to_all: {name} of member {collective.member} contain a negative size, {min(splits)}")


MAX_ALGORITHM_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class LoadedAlgorithm:
    """An algorithm.

    Attributes:
        name: that of the file with a part of its digest: two algorithms of one name are told apart.
        text: of the file, for agents.
        kind: the collective that it computes.
        members: of the groups that it is for.
        least_bytes, most_bytes: of the array that it is for; most 0: no limit.
        run: lanes of a member; PlanError: the collective is another one, of another size of group, or uneven.
    """

    name: str
    text: str
    path: str
    kind: CommKind
    members: int
    least_bytes: int
    most_bytes: int
    run: Algorithm

    def fits(self, *, members: int, size_bytes: int) -> bool:
        """Whether it is for a group of this size and an array of this size (Chakra's comm_size)."""
        whole = size_bytes * members if self.kind is CommKind.ALL_GATHER else size_bytes
        return members == self.members and self.least_bytes <= whole <= (self.most_bytes or whole)


_LOADED: dict[str, LoadedAlgorithm] = {}


def load_algorithm(text: str, path: str) -> LoadedAlgorithm:
    """Read an algorithm and prove it; afterwards it can be chosen by its name.

    Raises:
        PlanError: it is not valid, or it does not compute its collective; the message names file and line.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    known = next((one for one in _LOADED.values() if one.text == text), None)
    if known is not None:
        _LOADED[known.name] = replace(known, path=path)
        return _LOADED[known.name]
    one: LoadedAlgorithm = load(PluginKind.HOOKS, "read_algorithm")(text, path)
    one = replace(one, name=f"{one.name}-{digest}")
    _LOADED[one.name] = one
    return one


def loaded_algorithms() -> Mapping[str, LoadedAlgorithm]:
    """By name."""
    return _LOADED
