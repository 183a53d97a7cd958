"""`charkha trace generate`: synthetic traces."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.annexes.workloads.checkpoint import Checkpointing, checkpoint_workload
from emulator.annexes.workloads.collective_loop import CollectiveLoop, collective_workload
from emulator.annexes.workloads.inference import Inference, played_requests, poisson_requests
from emulator.annexes.workloads.inference_workload import inference_workload
from emulator.annexes.workloads.moe import MixtureOfExperts
from emulator.annexes.workloads.moe_workload import moe_workload
from emulator.annexes.workloads.mooncake import read_requests
from emulator.annexes.workloads.totals import SyntheticWorkload, render
from emulator.annexes.workloads.transformer import Transformer
from emulator.annexes.workloads.transformer_workload import transformer_workload
from emulator.cli.options import add_options, given
from emulator.cli.output import files_line, print_json, print_tables
from emulator.cli.parser import Parser, Subparsers
from emulator.option import options_of
from emulator.results.run_folder.places import check_folder
from emulator.trace.files.write_workload import write_workload


@dataclass(frozen=True, slots=True, kw_only=True)
class _Workload:
    """A workload of the command; its options are the fields of `parameters`, its example opens `epilog`."""

    name: str
    help: str
    description: str
    epilog: str
    parameters: type
    make: Callable[[Any], SyntheticWorkload]


def _inference(job: Inference) -> SyntheticWorkload:
    if job.trace is None:
        return inference_workload(job, poisson_requests(job))
    found = read_requests(job.trace, block_tokens=job.block_tokens, most=job.requests)
    return inference_workload(job, played_requests(job, found))


_TRANSFORMER_EXAMPLE = """example:
  charkha trace generate transformer --layers 32 --hidden 4096 --sequence 4096 --batch 64 \\
      --tensor 8 --pipeline 4 --data 2 --micro-batches 8 --out traces/transformer-64r
"""

_WORKLOADS = (
    _Workload(
        name="transformer",
        help="one training iteration of a transformer",
        description="Make one training iteration of a transformer, with parallelism of every kind.",
        epilog=f"""{_TRANSFORMER_EXAMPLE}
Rank = ((pipeline * D + data) * C + context) * T + tensor, with D, C and T the sizes of data,
context and tensor parallelism.
docs/generate.md derives sizes and times.
""",
        parameters=Transformer,
        make=transformer_workload,
    ),
    _Workload(
        name="moe",
        help="a mixture of experts: tokens routed between ranks",
        description="Make one iteration of a mixture of experts: every layer dispatches tokens to the chosen\n"
        "experts (an uneven all-to-all) and combines the results (its transpose).",
        epilog="""example:
  charkha trace generate moe --expert 8 --layers 4 --tokens 128 --routing zipf --out moe

Rank = replica * E + member, with E the size of expert parallelism. The default sizes are those of
DeepSeek-V3: with 128 tokens, a rank dispatches 7.57 MB and combines 14.7 MB. docs/generate.md
derives them.
""",
        parameters=MixtureOfExperts,
        make=moe_workload,
    ),
    _Workload(
        name="checkpoint",
        help="checkpoints of a training job, and its restart from one",
        description="Make a training job that writes checkpoints to storage, and may start from one. If the\n"
        "topology has storage hosts, `run` plays the files as traffic with them, else as time.",
        epilog="""example:
  charkha trace generate checkpoint --model llama-3.1-8b --data 8 --restart --out checkpoint-8r

A parameter has 2 bytes of weights and 12 of optimizer states. docs/generate.md derives sizes.
""",
        parameters=Checkpointing,
        make=checkpoint_workload,
    ),
    _Workload(
        name="inference",
        help="key-value caches on their way from prefill to decode workers",
        description="Make requests of disaggregated inference: prefill workers send the key-value cache of a prompt\n"
        "to decode workers. Requests arrive regardless of the network.",
        epilog="""example:
  charkha trace generate inference --trace requests.jsonl --requests 99 --prefill 2 --out chat

Prefill workers have the first ranks, then come the decode workers. A request goes to the
workers with the fewest tokens so far. docs/generate.md derives sizes and times.
""",
        parameters=Inference,
        make=_inference,
    ),
    _Workload(
        name="collective",
        help="one collective over all ranks, repeated",
        description="Make one collective over all ranks, repeated; each is posted when the previous one is done.",
        epilog="""example:
  charkha trace generate collective all_reduce -n 8 -b 64M --count 20 --out traces/all-reduce-64M

Sizes follow nccl-tests: an all_gather of 64M over 8 ranks gathers shards of 8M.
""",
        parameters=CollectiveLoop,
        make=collective_workload,
    ),
)


def add_parser(subparsers: Subparsers) -> None:
    """Add `generate` and its workloads to the command line."""
    parser = subparsers.add_parser(
        "generate",
        description="Make a synthetic trace: one .et file per rank, and comm_group.json with the process groups.",
        epilog=_TRANSFORMER_EXAMPLE,
    )
    workloads = parser.add_subparsers(title="workloads", metavar="WORKLOAD", required=True)
    for one in _WORKLOADS:
        made = workloads.add_parser(one.name, help=one.help, description=one.description, epilog=one.epilog)
        add_options(made, options_of(one.parameters))
        _add_output(made)
        made.set_defaults(handler=_run, workload=one)


def _add_output(parser: Parser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder for the trace")
    group.add_argument("--force", advanced=True, action="store_true", help="write into a folder that is not empty")
    group.add_argument("--json", action="store_true", help="print the totals as JSON")
    parser.add_explain("emulator.annexes.workloads.totals")


def _run(args: argparse.Namespace) -> None:
    check_folder(args.out, "--out")
    parameters = args.workload.parameters
    workload = args.workload.make(parameters(**given(args, options_of(parameters))))
    paths = write_workload(workload, args.out, force=args.force)
    if args.json:
        from emulator.annexes.workloads.totals import workload_to_json  # with the results of runs

        print_json(workload_to_json(workload, paths))
    else:
        print_tables(render(workload), files_line(paths))
