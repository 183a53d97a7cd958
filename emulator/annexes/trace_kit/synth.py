"""`charkha trace synth`: a trace set drawn from the statistics of another, checked and compared with its source."""

from __future__ import annotations

import argparse
import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Group, RenderableType

from emulator.annexes.trace_kit.anonymous import group_numbers, numbered_groups
from emulator.annexes.trace_kit.draw import MODELLED, NOT_MODELLED, draw
from emulator.annexes.trace_kit.statistics import gaps_ns, statistics_of
from emulator.cli.options import SOURCE_TRACE, add_options, build, given
from emulator.cli.output import print_json, print_tables
from emulator.cli.parser import Subparsers, at_least
from emulator.cli.playing import status
from emulator.errors import TraceError
from emulator.experiment.settle.workload import load_from_files
from emulator.experiment.spec.spec import Trace
from emulator.results.run_folder.places import check_folder
from emulator.trace.files.write_workload import write_workload
from emulator.trace.meaning.model import IntArray, Workload
from emulator.units import LARGEST_COUNT, format_duration, format_size
from emulator.views.columns.columns import Column, explain
from emulator.views.columns.figures import count_of, number_cell
from emulator.views.terminal.table import FittedTable, facts_grid
from emulator.views.terminal.written_trace import files_line


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
