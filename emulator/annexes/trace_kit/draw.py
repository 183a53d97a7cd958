"""Drawing a trace set from statistics.

The steps come in another order in which each of them follows each other one as often as in the source (Altschul and
Erickson, Mol. Biol. Evol. 2 (1985): a shuffle that preserves doublets), so no rare step is lost. An operation has the
sizes of one of its kind in its family, drawn evenly. The compute time before it is drawn at each rank from the
distribution of its role, linear between the observed values. Each rank performs all this one after the other, in an
order of operations that is the same everywhere: so the set cannot get stuck.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from emulator.annexes.trace_kit.statistics import GapKey, MemberPart, Statistics, Symbol, last_gap
from emulator.trace.meaning.model import CommKind, IntArray
from emulator.trace.synthetic.device import NodeChain
from emulator.trace.synthetic.synthetic import NodeStreams, WorkNode
from emulator.units import NS_PER_US

NAME = "synth"
MODELLED = (
    "process groups, pairs that exchange messages, and roles: as in the source",
    "the order of operations: every one occurs, and follows every other, as often as in the source",
    "sizes and splits: those of an operation of this kind in these groups, drawn evenly",
    "compute before an operation: from the distribution of the role, linear between observed values",
)
NOT_MODELLED = (
    "overlap: every rank computes and communicates one after the other",
    "how sizes and compute times depend on the step, on each other, and on other ranks",
    "the number of compute nodes, what runs on CPU or device, storage, recorded times of communication",
)


class _Action(NamedTuple):
    """What a rank does in a step."""

    family: int
    group: int
    peer: int
    kind: CommKind
    root: int
    part: MemberPart


def draw(
    statistics: Statistics, *, groups: Mapping[int, int], ranks_of: Mapping[int, tuple[int, ...]], seed: int
) -> NodeStreams:
    """Draw a trace set.

    Args:
        groups: index of a process group in the source → its number in the files.
        ranks_of: number → world ranks.
        seed: the same seed gives the same set.
    """
    rng = np.random.default_rng(seed)
    actions = _actions(statistics, shuffled_steps(statistics.steps, rng), groups, rng)

    def nodes(rank: int) -> Iterator[WorkNode]:
        return _nodes(actions[rank], statistics.roles[rank], statistics.gaps_ns, np.random.default_rng([seed, rank]))

    return NodeStreams(NAME, statistics.ranks, ranks_of, nodes, {"charkha.synth.seed": seed}, maker="charkha.synth")


def shuffled_steps(steps: Sequence[Symbol], rng: np.random.Generator) -> list[Symbol]:
    """The steps in another order with the same first and last one, and the same number of each pair in sequence."""
    following: dict[Symbol, list[Symbol]] = defaultdict(list)
    for before, after in pairwise(steps):
        following[before].append(after)
    final = _final_exits(following, steps[-1], rng)
    for symbol, exits in following.items():
        if symbol in final:
            exits.remove(final[symbol])
        rng.shuffle(exits)
        if symbol in final:
            exits.append(final[symbol])
        exits.reverse()
    drawn = [steps[0]]
    while following[drawn[-1]]:
        drawn.append(following[drawn[-1]].pop())
    return drawn


def _final_exits(
    following: Mapping[Symbol, Sequence[Symbol]], end: Symbol, rng: np.random.Generator
) -> dict[Symbol, Symbol]:
    """For each symbol but the last its last successor, so that these lead to the end: a random tree (Wilson 1996)."""
    exits: dict[Symbol, Symbol] = {}
    in_tree = {end}
    for symbol in following:
        at = symbol
        while at not in in_tree:
            exits[at] = following[at][int(rng.integers(len(following[at])))]
            at = exits[at]
        at = symbol
        while at not in in_tree:
            in_tree.add(at)
            at = exits[at]
    return exits


def _actions(
    statistics: Statistics, steps: Sequence[Symbol], groups: Mapping[int, int], rng: np.random.Generator
) -> list[list[_Action]]:
    """What each rank does, in an order that agrees with one order of all operations; sends come before receives."""
    actions: list[list[_Action]] = [[] for _ in range(statistics.ranks)]
    for symbol in steps:
        family = statistics.families[symbol.family]
        like = [at for at, kind in enumerate(family.kinds) if kind is symbol.kind]
        at = like[int(rng.integers(len(like)))]
        for number, ranks in enumerate(family.ranks):
            parts, root = family.parts[at][number], family.roots[at][number]
            if symbol.kind is CommKind.SEND:
                actions[ranks[0]].append(_Action(symbol.family, 0, ranks[1], CommKind.SEND, -1, parts[0]))
                continue
            group = groups[family.groups[number]]
            for rank, part in zip(ranks, parts, strict=True):
                actions[rank].append(_Action(symbol.family, group, -1, symbol.kind, root, part))
        if symbol.kind is CommKind.SEND:
            for number, (sender, receiver) in enumerate(family.ranks):
                part = family.parts[at][number][0]
                actions[receiver].append(_Action(symbol.family, 0, sender, CommKind.RECV, -1, part))
    return actions


def _nodes(
    actions: Sequence[_Action], role: int, gaps: Mapping[GapKey, IntArray], rng: np.random.Generator
) -> Iterator[WorkNode]:
    """Compute and communication, one after the other."""
    chain, last = NodeChain(), 0
    for action in actions:
        if micros := _drawn_micros(gaps[GapKey(role, action.family, action.kind)], rng):
            last = yield from chain.append("compute", last, duration_micros=micros)
        last = yield from chain.append(
            f"{action.kind.label} {action.family + 1}",
            last,
            kind=action.kind,
            group=action.group,
            peer=action.peer,
            tag=0 if action.kind.is_collective else action.family,
            root=action.root,
            **action.part._asdict(),
        )
    if micros := _drawn_micros(gaps[last_gap(role)], rng):
        yield from chain.append("compute", last, duration_micros=micros)


def _drawn_micros(gaps: IntArray, rng: np.random.Generator) -> int:
    return round(float(np.quantile(gaps, rng.random())) / NS_PER_US)
