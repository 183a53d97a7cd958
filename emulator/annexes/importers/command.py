"""`charkha trace convert`: rewrite a trace as plain Chakra ET, one protobuf file per rank, or as one master file."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.cli.output import print_json, print_tables
from emulator.cli.parser import Subparsers, at_least
from emulator.cli.playing import status
from emulator.errors import InputError
from emulator.results.run_folder.places import check_file, check_folder
from emulator.units import format_size
from emulator.views.columns.figures import count_of
from emulator.visible import visible

if TYPE_CHECKING:
    from emulator.annexes.importers.model import Importer

_ET, _MASTER = "et", "master"
_EPILOG = """examples:
  charkha trace convert my-pytorch-traces traces/my-job
  charkha trace convert --to master my-pytorch-traces my-job.parquet

SRC is in any format that Charkha reads (docs/importers.md), told from its content, or a master
file: the communication of all ranks in one Parquet table (docs/sharing.md). Writes plain .et, the
group file, and for an import import.json: what was mapped, dropped and guessed.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `convert` to the command line."""
    parser = subparsers.add_parser(
        "convert",
        description="Rewrite a trace of any format that Charkha reads as plain Chakra ET: <prefix>.<rank>.et.",
        epilog=_EPILOG,
    )
    parser.add_argument("source", metavar="SRC", type=Path, help="a folder, an archive, a prefix, or one file")
    parser.add_argument("target", metavar="DST", type=Path, help="new or empty folder; for a master file, its name")
    parser.add_argument(
        "--from", metavar="FORMAT", dest="source_format", help="format of SRC: chakra, pytorch, nccl-log …"
    )
    parser.add_argument("--to", choices=(_ET, _MASTER), default=_ET, help="what to write (default: et)")
    parser.add_argument("--strict", action="store_true", help="refuse an import that needs guesses or lacks ranks")
    parser.add_argument("--groups", metavar="FILE", type=Path, help="process groups (default: the file next to SRC)")
    parser.add_argument("--lenient", action="store_true", help="drop dependencies on missing nodes")
    parser.add_argument("--ranks", metavar="N", type=at_least(1), help="number of ranks the trace must have")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    parser.add_explain("emulator.annexes.importers.writing")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    from emulator.annexes.importers.importing import CHAKRA, find_importer, importer_named
    from emulator.trace.files.files import is_master

    if args.to == _MASTER:
        _to_master(args)
        return
    check_folder(args.target, "DST")
    if is_master(args.source):
        _from_master(args)
        return
    if args.source_format is None:
        importer = find_importer(args.source)
    else:
        importer = None if args.source_format == CHAKRA else importer_named(args.source_format)
    if importer is None:
        if args.strict:
            raise InputError("--strict is for imported traces; SRC is a trace of Chakra, or of no known format")
        _convert(args)
    elif args.groups is not None or args.lenient:
        option, own = ("--lenient", "dependencies") if args.groups is None else ("--groups", "process groups")
        raise InputError(f"{option} is for traces of Chakra; an imported trace has its own {own}")
    else:
        _import(args, importer)


def _to_master(args: argparse.Namespace) -> None:
    from emulator.experiment.settle.workload import load_from_files
    from emulator.experiment.spec.spec import Trace
    from emulator.trace.files.master import write_master
    from emulator.trace.files.write_workload import trace_name

    if args.strict or args.source_format is not None:
        raise InputError("--strict and --from are for --to et: convert an imported trace to .et first")
    check_file(args.target, "DST")
    groups = None if args.groups is None else str(args.groups)
    with status() as on_step:
        trace = Trace(path=str(args.source), ranks=args.ranks, groups=groups, lenient=args.lenient)
        job = load_from_files(trace, on_step=on_step)
        on_step("writing")
        made = write_master(args.target, job.workload, job.loaded.traces, name=trace_name(job.loaded.files))
    size = args.target.stat().st_size
    if args.json:
        print_json(dataclasses.asdict(made) | {"size_bytes": size, "files": [str(args.target)]})
    else:
        stored = f"stored as {made.rows:,} of {count_of(made.programs, 'distinct program')}"
        held = f"{count_of(made.communications, 'communication')} of {count_of(made.ranks, 'rank')}"
        where = f"{visible(str(args.target))}: {format_size(size)}"
        has_storage = any(trace.storage for trace in job.loaded.traces)
        left_out = "compute and storage are" if has_storage else "compute is"
        print_tables(f"{held}, {stored}; {left_out} omitted", where)


def _from_master(args: argparse.Namespace) -> None:
    from emulator.cli.output import files_line
    from emulator.trace.files.master import read_master
    from emulator.trace.files.write_workload import write_workload

    if args.strict or args.lenient or args.groups is not None or args.source_format is not None:
        options = "--strict, --lenient, --groups and --from"
        raise InputError(f"{options} are not for a master file, which holds all that they decide")
    master = read_master(args.source, ranks=args.ranks)
    paths = write_workload(master.streams(), args.target)
    nodes = sum(
        len(master.rows.get(number, ())) * len(ranks) for number, ranks in enumerate(master.description.programs)
    )
    if args.json:
        print_json({"ranks": master.ranks, "nodes": nodes, "files": [str(path) for path in paths]})
    else:
        print_tables(f"{count_of(nodes, 'node')} of {count_of(master.ranks, 'rank')}", files_line(paths))


def _convert(args: argparse.Namespace) -> None:
    from emulator.cli.output import files_line
    from emulator.experiment.settle.workload import prove_files
    from emulator.experiment.spec.spec import Trace
    from emulator.trace.files.write_workload import convert_trace

    groups = None if args.groups is None else str(args.groups)
    trace = Trace(path=str(args.source), ranks=args.ranks, groups=groups, lenient=args.lenient)
    with status() as on_step:
        loaded = prove_files(trace, args.source, args.ranks, on_step=on_step).loaded
        paths, ranks = convert_trace(loaded, args.target, lenient=args.lenient), len(loaded.files)
    if args.json:
        print_json({"ranks": ranks, "nodes": loaded.nodes, "files": [str(path) for path in paths]})
    else:
        print_tables(f"{loaded.nodes:,} nodes of {ranks:,} rank{'s' * (ranks != 1)}", files_line(paths))


def _import(args: argparse.Namespace, importer: Importer) -> None:
    from emulator.annexes.importers.importing import import_trace
    from emulator.annexes.importers.writing import render, report, write_imported
    from emulator.cli.output import files_line
    from emulator.experiment.settle.workload import named_as, prove_files
    from emulator.experiment.spec.spec import Trace

    with status() as on_step:

        def on_rank(done: int, ranks: int) -> None:
            on_step(f"importing the trace: {done} of {ranks} ranks")

        trace = import_trace(importer, args.source, ranks=args.ranks, strict=args.strict, on_rank=on_rank)

        def prove(folder: Path) -> None:
            with named_as(args.source, folder):
                prove_files(Trace(path=str(args.source)), folder, len(trace.ranks), on_step=on_step)

        # A job without all ranks is written too, for other tools: it cannot be proven.
        paths = write_imported(trace, args.target, prove=None if trace.missing else prove)
    if args.json:
        nodes = sum(len(one.nodes) for one in trace.ranks)
        files = [str(path) for path in paths]
        print_json({"ranks": len(trace.ranks), "nodes": nodes, "files": files, "import": report(trace)})
    else:
        print_tables(render(trace), "", files_line(paths))
