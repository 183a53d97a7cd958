"""`charkha trace synth`: a trace set drawn from the statistics of another, checked and compared with its source.

The steps come in another order in which each of them follows each other one as often as in the source (Altschul and
Erickson, Mol. Biol. Evol. 2 (1985): a shuffle that preserves doublets), so no rare step is lost. An operation has the
sizes of one of its kind in its family, drawn evenly. The compute time before it is drawn at each rank from the
distribution of its role, linear between the observed values. Each rank performs all this one after the other, in an
order of operations that is the same everywhere: so the set cannot get stuck.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Group, RenderableType

from emulator.annexes.trace_kit.anonymous import group_numbers, numbered_groups
from emulator.annexes.trace_kit.statistics import (
    GapKey,
    MemberPart,
    Statistics,
    Symbol,
    gaps_ns,
    last_gap,
    statistics_of,
)
from emulator.cli.options import SOURCE_TRACE, add_options, build, given
from emulator.cli.output import files_line, print_json, print_tables
from emulator.cli.parser import Subparsers, at_least
from emulator.cli.playing import status
from emulator.errors import TraceError
from emulator.experiment.settle.workload import load_from_files
from emulator.experiment.spec.spec import Trace
from emulator.results.run_folder.places import check_folder
from emulator.trace.files.write_workload import write_workload
from emulator.trace.meaning.model import CommKind, IntArray, Workload
from emulator.trace.synthetic.synthetic import NodeChain, NodeStreams, WorkNode
from emulator.units import LARGEST_COUNT, NS_PER_US, format_duration, format_size
from emulator.views.columns.columns import Column, explain
from emulator.views.columns.figures import count_of, number_cell
from emulator.views.terminal.table import FittedTable, facts_grid

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


@dataclass(frozen=True, slots=True)
class Distance:
    """A quantity in the source and in the sample.

    Attributes:
        what: `size` of a kind, or `gap` of a role.
        name: the kind, or the role with its number of ranks.
        source_count, sample_count: how many values there are.
        source_sum, sample_sum: their sums, bytes or ns.
        kolmogorov_smirnov: largest difference of the two distribution functions, 0 to 1; None: no values on one side.
    """

    what: str
    name: str
    source_count: int
    sample_count: int
    source_sum: int
    sample_sum: int
    kolmogorov_smirnov: float | None


def kolmogorov_smirnov(source: IntArray, sample: IntArray) -> float:
    """The largest difference of the distribution functions of two samples, at least one value each."""
    values = np.concatenate([source, sample])
    here, there = (np.searchsorted(np.sort(one), values, side="right") / len(one) for one in (source, sample))
    return float(np.abs(here - there).max())


def distances(source: Workload, sample: Workload, *, roles: Sequence[int]) -> list[Distance]:
    """Sizes by kind, then gaps by role.

    Args:
        source, sample: as they are played.
        roles: rank → role, of both.
    """
    here, there = _sizes(source), _sizes(sample)
    none = np.zeros(0, np.int64)
    sizes = [_distance("size", kind, here.get(kind, none), there.get(kind, none)) for kind in sorted({*here, *there})]
    return sizes + [_gap_distance(source, sample, role, roles) for role in sorted(set(roles))]


def _gap_distance(source: Workload, sample: Workload, role: int, roles: Sequence[int]) -> Distance:
    ranks = [rank for rank, one in enumerate(roles) if one == role]
    here, there = (
        np.concatenate([gaps_ns(workload.programs[rank]) for rank in ranks]) for workload in (source, sample)
    )
    return _distance("gap", f"role {role + 1} ({len(ranks)} rank{'s' * (len(ranks) != 1)})", here, there)


def _sizes(workload: Workload) -> dict[str, IntArray]:
    found: dict[str, list[int]] = defaultdict(list)
    for program in workload.programs:
        for node in program.communications.values():
            found[node.kind.label].append(node.size_bytes)
    return {kind: np.array(values, dtype=np.int64) for kind, values in found.items()}


def _distance(what: str, name: str, source: IntArray, sample: IntArray) -> Distance:
    statistic = kolmogorov_smirnov(source, sample) if len(source) and len(sample) else None
    return Distance(what, name, len(source), len(sample), int(source.sum()), int(sample.sum()), statistic)


@dataclass(frozen=True, slots=True)
class SampledTrace:
    """A trace set that was drawn from the statistics of another.

    Attributes:
        roles: kinds of ranks: those of one perform the same operations.
        families: kinds of process groups and pairs, which perform the same operations.
        steps: operations of a family, all its groups together.
        modelled, not_modelled: in words.
    """

    ranks: int
    roles: int
    families: int
    steps: int
    seed: int
    distances: Sequence[Distance]
    modelled: Sequence[str]
    not_modelled: Sequence[str]
    files: Sequence[Path]


def synthesise(
    trace: Trace, folder: Path, *, seed: int, on_step: Callable[[str], None] = lambda _: None
) -> SampledTrace:
    """Draw a set like a trace and write it into a new or empty folder.

    Raises:
        TraceError: the source cannot be read or played, or has no communication.
        InputError: the folder is not empty, or the group file cannot be read.
        HostError: something cannot be written; what was written is removed again.
    """
    source = load_from_files(trace, on_step=on_step).workload
    if not source.instances:
        raise TraceError("has no communication on the network, so there is nothing to draw from", path=trace.path)
    on_step("drawing")
    statistics, numbers = statistics_of(source), group_numbers(source)
    streams = draw(statistics, groups=numbers, ranks_of=numbered_groups(source, numbers), seed=seed)
    files = write_workload(streams, folder)
    sample = load_from_files(Trace(path=str(folder), ranks=statistics.ranks), on_step=on_step).workload
    return SampledTrace(
        ranks=statistics.ranks,
        roles=len(set(statistics.roles)),
        families=len(statistics.families),
        steps=len(statistics.steps),
        seed=seed,
        distances=distances(source, sample, roles=statistics.roles),
        modelled=MODELLED,
        not_modelled=NOT_MODELLED,
        files=files,
    )


def _sum(value: Callable[[Distance], int]) -> Callable[[Distance], str]:
    return lambda one: format_size(value(one)) if one.what == "size" else format_duration(value(one))


_COLUMNS: tuple[Column[Distance], ...] = (
    Column(
        "",
        "sizes of a kind of communication, or gaps of a role",
        title="what",
        cell=lambda one: one.what,
        is_number=False,
    ),
    Column(
        "of",
        "kind of communication; role: ranks that perform the same operations. A gap is the compute time before one",
        cell=lambda one: one.name,
        is_number=False,
    ),
    Column("n\nsource", "number of values in the source", cell=lambda one: f"{one.source_count:,}"),
    Column("n\nsample", "number of values in the sample", cell=lambda one: f"{one.sample_count:,}"),
    Column("sum\nsource", "sum of the values in the source", cell=_sum(lambda one: one.source_sum)),
    Column("sum\nsample", "sum of the values in the sample", cell=_sum(lambda one: one.sample_sum)),
    Column(
        "KS",
        "Kolmogorov-Smirnov statistic: largest difference between the two distribution functions, 0 (equal) to 1",
        cell=lambda one: number_cell(one.kolmogorov_smirnov),
    ),
)
EXPLAIN = explain(_COLUMNS, title="Distances between source and sample:")


def render(made: SampledTrace) -> RenderableType:
    """The report of `charkha trace synth`."""
    return Group(FittedTable(_COLUMNS, made.distances), "", facts_grid(_lines(made)))


def _lines(made: SampledTrace) -> Iterator[tuple[str, str]]:
    counted = [
        count_of(made.ranks, "rank"),
        f"in {count_of(made.roles, 'role')}",
        count_of(made.steps, "step"),
        f"of {count_of(made.families, 'family', 'families')} of process groups and pairs",
    ]
    yield "sample", f"{', '.join(counted)}; seed {made.seed}"
    yield "can finish", "proven"
    for title, texts in (("modelled", made.modelled), ("not modelled", made.not_modelled)):
        for number, text in enumerate(texts):
            yield ("" if number else title), text


_EPILOG = """example:
  charkha trace synth my-pytorch-traces traces/like-mine --seed 7

The order of operations, their sizes and the compute times before them are drawn from SRC. The
table says how far the sample is from SRC; docs/sharing.md says what is modelled and what is not.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `synth` to the command line."""
    parser = subparsers.add_parser(
        "synth", description="Draw a new trace from the statistics of another, and compare the two.", epilog=_EPILOG
    )
    add_options(parser, SOURCE_TRACE)
    parser.add_argument("target", metavar="DST", type=Path, help="folder for the new trace, new or empty")
    parser.add_argument(
        "--seed",
        metavar="N",
        type=at_least(0, most=LARGEST_COUNT),
        default=1,
        help="a different seed gives a different trace (default: 1)",
    )
    parser.add_argument("--json", action="store_true", help="print the same facts as JSON")
    parser.add_explain("emulator.annexes.trace_kit.synth")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    check_folder(args.target, "DST")
    trace = build(given(args, SOURCE_TRACE), SOURCE_TRACE).job.trace
    assert trace is not None
    with status() as on_step:
        made = synthesise(trace, args.target, seed=args.seed, on_step=on_step)
    if args.json:
        print_json(dataclasses.asdict(made) | {"files": [str(path) for path in made.files]})
    else:
        print_tables(render(made), "", files_line(made.files))
