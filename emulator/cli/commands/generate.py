"""`charkha generate`: synthetic traces."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from emulator.cli.options.converters import argument
from emulator.cli.output import print_json, print_tables
from emulator.cli.parser import Group, Parser, Subparsers
from emulator.planner.workloads.collective_loop import CollectiveLoop, collective_workload
from emulator.planner.workloads.pipeline_schedule import PipelineSchedule
from emulator.planner.workloads.synthetic import SyntheticWorkload
from emulator.planner.workloads.transformer import Transformer
from emulator.planner.workloads.transformer_workload import transformer_workload
from emulator.run_folder.places import check_folder
from emulator.trace.collective_names import COLLECTIVES, parse_collective
from emulator.units import parse_size
from emulator.views.as_json.workload import workload_to_json
from emulator.views.terminal.written_trace import files_line, render
from emulator.wire.trace.write_workload import write_workload

_TRANSFORMER_EXAMPLE = """example:
  charkha generate transformer --layers 32 --hidden 4096 --sequence 4096 --batch 64 \\
      --tensor 8 --pipeline 4 --data 2 --micro-batches 8 --out traces/transformer-64r
"""
_TRANSFORMER_EPILOG = f"""{_TRANSFORMER_EXAMPLE}
Rank = (pipeline * D + data) * T + tensor, with D and T the sizes of data and tensor parallelism.
docs/generate.md derives sizes and times.
"""
_COLLECTIVE_EPILOG = """example:
  charkha generate collective all_reduce -n 8 -b 64M --count 20 --out traces/all-reduce-64M

Sizes follow nccl-tests: an all_gather of 64M over 8 ranks gathers shards of 8M.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `generate` and its workloads to the command line."""
    parser = subparsers.add_parser(
        "generate",
        description="Make a synthetic trace: one .et file per rank, and comm_group.json with the process groups.",
        epilog=_TRANSFORMER_EXAMPLE,
    )
    workloads = parser.add_subparsers(title="workloads", metavar="WORKLOAD", required=True)
    _add_transformer(workloads)
    _add_collective(workloads)


def _run(args: argparse.Namespace) -> None:
    check_folder(args.out, "--out")
    workload: SyntheticWorkload = args.workload(args)
    paths = write_workload(workload, args.out, force=args.force)
    if args.json:
        print_json(workload_to_json(workload, paths))
    else:
        print_tables(render(workload), files_line(paths))


def _add_transformer(workloads: Subparsers) -> None:
    parser = workloads.add_parser(
        "transformer",
        help="one training iteration of a dense transformer",
        description="Make one training iteration of a dense transformer with tensor, pipeline and data parallelism.",
        epilog=_TRANSFORMER_EPILOG,
    )
    model = parser.add_argument_group("model")
    _add_number(model, "layers", "transformer layers", required=True)
    _add_number(model, "hidden", "hidden size", required=True)
    _add_number(model, "sequence", "tokens per sequence", required=True)
    _add_number(model, "batch", "sequences per iteration, over all replicas", required=True)
    _add_number(model, "micro_batches", "micro-batches per replica and iteration", default=1)
    _add_number(model, "vocabulary", "tokens in the vocabulary", default=51_200, advanced=True)
    _add_number(model, "ffn_multiplier", "width of the MLP as a multiple of hidden", default=4, advanced=True)
    _add_number(model, "dtype_bytes", "bytes per activation, parameter and gradient", default=2, advanced=True)
    model.add_argument(
        "--recompute", advanced=True, action="store_true", help="recompute all activations in the backward pass"
    )
    _add_parallelism(parser)
    device = parser.add_advanced_group("device")
    tflops, gbytes = "achieved TFLOP/s of one device", "achieved memory traffic of one device, GB/s"
    _add_number(device, "tflops", tflops, default=200.0, dest="device_tflops")
    _add_number(device, "memory_gbytes", gbytes, default=1500.0, dest="device_gbytes_per_s")
    _add_output(parser)
    parser.set_defaults(handler=_run, workload=_transformer)


def _add_parallelism(parser: Parser) -> None:
    group = parser.add_argument_group("parallelism")
    for name in ("tensor", "pipeline", "data"):
        _add_number(group, name, f"{name} parallelism", default=1)
    group.add_argument(
        "--schedule",
        advanced=True,
        choices=[schedule.value for schedule in PipelineSchedule],
        default=PipelineSchedule.ONE_F_ONE_B.value,
        help="order of micro-batches in a pipeline stage (default: 1f1b)",
    )
    group.add_argument(
        "--shard-optimizer",
        advanced=True,
        action="store_true",
        help="reduce-scatter gradients and all-gather parameters (default: all-reduce gradients)",
    )


def _add_number(group: Group, name: str, text: str, *, default: float | None = None, **settings: Any) -> None:
    """An option of the default's type; one without a default is an integer."""
    kind = int if default is None else type(default)
    help_text = text if default is None else f"{text} (default: {default:g})"
    group.add_argument(
        f"--{name.replace('_', '-')}", metavar="N", type=kind, default=default, help=help_text, **settings
    )


def _add_collective(workloads: Subparsers) -> None:
    parser = workloads.add_parser(
        "collective",
        help="one collective over all ranks, repeated",
        description="Make one collective over all ranks, repeated; each is posted when the one before is done.",
        epilog=_COLLECTIVE_EPILOG,
    )
    kinds = ", ".join(COLLECTIVES)
    parser.add_argument("collective", metavar="COLLECTIVE", type=argument(parse_collective), help=kinds)
    parser.add_argument("-n", "--ranks", metavar="N", type=int, required=True, help="number of ranks")
    parser.add_argument(
        "-b", "--bytes", metavar="SIZE", type=argument(parse_size), default=0, help="size as in nccl-tests, e.g. 64M"
    )
    parser.add_argument("--count", metavar="K", type=int, default=1, help="number of collectives (default: 1)")
    parser.add_argument(
        "--gap-micros", metavar="US", type=int, default=0, help="compute time before each, µs (default: 0)"
    )
    _add_output(parser)
    parser.set_defaults(handler=_run, workload=_collective)


def _add_output(parser: Parser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder for the trace")
    group.add_argument("--force", advanced=True, action="store_true", help="write into a folder that is not empty")
    group.add_argument("--json", action="store_true", help="print the totals as JSON")
    parser.add_explain("written_trace")


def _transformer(args: argparse.Namespace) -> SyntheticWorkload:
    given = {field.name: getattr(args, field.name) for field in fields(Transformer)}
    return transformer_workload(Transformer(**given | {"schedule": PipelineSchedule(args.schedule)}))


def _collective(args: argparse.Namespace) -> SyntheticWorkload:
    loop = CollectiveLoop(
        kind=args.collective,
        ranks=args.ranks,
        size_bytes=args.bytes,
        count=args.count,
        compute_micros=args.gap_micros,
    )
    return collective_workload(loop)
