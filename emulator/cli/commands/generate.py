"""`charkha generate`: synthetic traces."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table

from emulator.cli.options.arguments import argument
from emulator.planner.workloads.microbenchmark import CollectiveLoop, collective_workload
from emulator.planner.workloads.node import SyntheticWorkload, Totals, Traffic
from emulator.planner.workloads.pipeline import PipelineSchedule
from emulator.planner.workloads.transformer import Transformer
from emulator.planner.workloads.workload import transformer_workload
from emulator.run_folder.places import check_folder
from emulator.trace.model import CommKind
from emulator.units import NS_PER_US, format_duration, format_size, parse_size
from emulator.views.terminal.console import console
from emulator.visible import visible
from emulator.wire.trace.generated import write_workload

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_TRANSFORMER_EXAMPLE = """example:
  charkha generate transformer --layers 32 --hidden 4096 --sequence 4096 --batch 64 --micro-batches 8 \\
      --tensor 8 --pipeline 4 --data 2 --out traces/transformer-64r

Rank = (pipeline * D + data) * T + tensor. docs/generate.md has the formulae behind sizes and times.
"""

_COLLECTIVE_EXAMPLE = """example:
  charkha generate collective all_reduce -n 8 -b 64M --count 20 --out traces/all-reduce-64M

Sizes are those of nccl-tests: an all_gather of 64M over 8 ranks gathers shards of 8M.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `generate` and what it can generate to the command line."""
    parser = subparsers.add_parser(
        "generate",
        help="make a synthetic trace",
        description="Make a synthetic trace: one .et file per rank, and comm_group.json with the process groups.",
        epilog=_TRANSFORMER_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    workloads = parser.add_subparsers(title="workloads", metavar="WORKLOAD", required=True)
    _add_transformer(workloads)
    _add_collective(workloads)


def run(args: argparse.Namespace) -> int:
    """Make the trace and print what it will move.

    Raises:
        PlanError: parameters that do not fit together.
        InputError: the folder is not empty, or cannot be made.
        HostError: something cannot be written.
    """
    check_folder(args.out, "--out")
    workload: SyntheticWorkload = args.workload(args)
    paths = write_workload(workload, args.out, force=args.force)
    if args.json:
        print(json.dumps(_summary(workload, paths), indent=2))
    else:
        _print_summary(workload, paths)
    return 0


def _add_transformer(workloads: Subparsers) -> None:
    parser = workloads.add_parser(
        "transformer",
        help="one training iteration of a dense transformer",
        description="One training iteration of a dense transformer with tensor, pipeline and data parallelism.",
        epilog=_TRANSFORMER_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_model(parser)
    _add_parallelism(parser)
    device = parser.add_argument_group("device")
    device.add_argument(
        "--tflops", type=float, default=200.0, metavar="X", help="TFLOP/s a device achieves (default %(default)g)"
    )
    device.add_argument(
        "--memory-gbytes",
        type=float,
        default=1500.0,
        metavar="X",
        help="memory traffic it achieves, 10^9 bytes/s (default %(default)g)",
    )
    _add_output(parser)
    parser.set_defaults(handler=run, workload=_transformer)


def _add_model(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("model")
    for name, text in (
        ("layers", "transformer layers"),
        ("hidden", "hidden size"),
        ("sequence", "tokens of a sequence"),
        ("batch", "sequences of an iteration, over all replicas"),
    ):
        model.add_argument(f"--{name}", type=int, required=True, metavar="N", help=text)
    for name, default, text in (
        ("micro-batches", 1, "micro-batches a replica cuts its share of the batch into"),
        ("vocabulary", 51_200, "tokens of the vocabulary"),
        ("ffn-multiplier", 4, "width of the MLP as a multiple of hidden"),
        ("dtype-bytes", 2, "bytes of an activation, parameter or gradient"),
    ):
        model.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"{text} (default {default})")
    model.add_argument("--recompute", action="store_true", help="recompute all activations in the backward pass")


def _add_parallelism(parser: argparse.ArgumentParser) -> None:
    parallelism = parser.add_argument_group("parallelism")
    for name in ("tensor", "pipeline", "data"):
        parallelism.add_argument(f"--{name}", type=int, default=1, metavar="N", help=f"{name} parallelism (default 1)")
    parallelism.add_argument(
        "--schedule",
        choices=[schedule.value for schedule in PipelineSchedule],
        default=PipelineSchedule.ONE_F_ONE_B.value,
        help="order of micro-batches in a pipeline stage (default 1f1b)",
    )
    parallelism.add_argument(
        "--shard-optimizer",
        action="store_true",
        help="reduce-scatter gradients and all-gather parameters instead of all-reducing gradients",
    )


def _add_collective(workloads: Subparsers) -> None:
    kinds = [kind.label for kind in CommKind if kind.is_collective]
    parser = workloads.add_parser(
        "collective",
        help="one collective over all ranks, again and again",
        description="One collective over all ranks, again and again, each posted when the one before is done.",
        epilog=_COLLECTIVE_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("collective", choices=kinds, metavar="COLLECTIVE", help=", ".join(kinds))
    parser.add_argument("-n", "--ranks", type=int, required=True, metavar="N", help="ranks")
    parser.add_argument(
        "-b", "--bytes", type=argument(parse_size), default=0, metavar="SIZE", help="size as nccl-tests counts it: 64M"
    )
    parser.add_argument("--count", type=int, default=1, metavar="K", help="how many of them (default 1)")
    parser.add_argument("--gap-micros", type=int, default=0, metavar="US", help="computing before each (default 0)")
    _add_output(parser)
    parser.set_defaults(handler=run, workload=_collective)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the trace")
    parser.add_argument("--force", action="store_true", help="write into a folder that is not empty")
    parser.add_argument("--json", action="store_true", help="print the totals as JSON")


def _transformer(args: argparse.Namespace) -> SyntheticWorkload:
    model = Transformer(
        layers=args.layers,
        hidden=args.hidden,
        sequence=args.sequence,
        batch=args.batch,
        micro_batches=args.micro_batches,
        vocabulary=args.vocabulary,
        ffn_multiplier=args.ffn_multiplier,
        dtype_bytes=args.dtype_bytes,
        tensor=args.tensor,
        pipeline=args.pipeline,
        data=args.data,
        schedule=PipelineSchedule(args.schedule),
        recompute=args.recompute,
        shard_optimizer=args.shard_optimizer,
        device_tflops=args.tflops,
        device_gbytes_per_s=args.memory_gbytes,
    )
    return transformer_workload(model)


def _collective(args: argparse.Namespace) -> SyntheticWorkload:
    loop = CollectiveLoop(
        kind=CommKind[args.collective.upper()],
        ranks=args.ranks,
        size_bytes=args.bytes,
        count=args.count,
        compute_micros=args.gap_micros,
    )
    return collective_workload(loop)


def _print_summary(workload: SyntheticWorkload, paths: Sequence[Path]) -> None:
    totals = workload.totals
    title = f"{workload.name}: one iteration over {totals.ranks} ranks"
    table = Table("role", "operation", box=SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for heading in ("comm_size", "ranks", "count", "nodes", "sum"):
        table.add_column(heading, justify="right")
    for entry in totals.traffic:
        table.add_row(*_cells(entry))
    out = console()
    out.print(table)
    compute = format_duration(totals.compute_micros * NS_PER_US / totals.ranks)
    out.print(
        f"{totals.nodes} nodes, {totals.compute_nodes} of them compute: {compute} a rank on average", highlight=False
    )
    out.print(visible(_files(paths)), soft_wrap=True, highlight=False)


def _cells(entry: Traffic) -> tuple[str, ...]:
    return (
        entry.role.value,
        entry.kind.label,
        format_size(entry.size_bytes),
        str(entry.group_size),
        str(entry.operations),
        str(entry.nodes),
        format_size(entry.total_bytes),
    )


def _files(paths: Sequence[Path]) -> str:
    traces = [path for path in paths if path.suffix == ".et"]
    span = traces[0].name if len(traces) == 1 else f"{traces[0].name} to {traces[-1].name}"
    others = [path.name for path in paths if path.suffix != ".et"]
    return f"{paths[0].parent}: {', '.join([span, *others])}"


def _summary(workload: SyntheticWorkload, paths: Sequence[Path]) -> dict[str, object]:
    return {
        "workload": workload.name,
        "parameters": dict(workload.parameters),
        **_totals_summary(workload.totals),
        "groups": len(workload.groups),
        "files": [str(path) for path in paths],
    }


def _totals_summary(totals: Totals) -> dict[str, object]:
    return {
        "ranks": totals.ranks,
        "nodes": totals.nodes,
        "compute_nodes": totals.compute_nodes,
        "compute_micros": totals.compute_micros,
        "traffic": [
            {
                "role": entry.role.value,
                "operation": entry.kind.label,
                "size_bytes": entry.size_bytes,
                "group_size": entry.group_size,
                "operations": entry.operations,
                "nodes": entry.nodes,
                "total_bytes": entry.total_bytes,
            }
            for entry in totals.traffic
        ],
    }
