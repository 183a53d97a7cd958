"""What `run` and `bench` share: from options and a loaded trace to a played run folder."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from emulator.cli.options.dialling import listening
from emulator.cli.options.reporting import reporting
from emulator.cli.options.roce import roce_options
from emulator.controller.job import Job, JobOptions
from emulator.errors import EmulatorError, ResultError
from emulator.experiment.calibrated import calibration_of
from emulator.experiment.entering import enter_lab
from emulator.experiment.logged import RunLog
from emulator.experiment.loopback import own_block
from emulator.experiment.telling import telemetry
from emulator.experiment.transport_defaults import take_lab_defaults, take_transport_defaults
from emulator.experiment.watching import watch
from emulator.lab.playing import LabPlace
from emulator.planner.algorithms import parse_overrides
from emulator.run_folder.places import check_folder
from emulator.run_folder.record import Run, read_run
from emulator.run_folder.schema import Part
from emulator.run_folder.store import RUNS, is_run_folder
from emulator.telemetry.reporter import RunFacts
from emulator.topology.load import load_topology
from emulator.topology.model import Topology, default_loopback
from emulator.trace.model import Workload
from emulator.views.terminal.progress import RunProgress
from emulator.visible import visible
from emulator.wire.trace.load import LoadedTrace

_LONGEST_NAME = 60
"""Characters of a trace's name in that of its run folder: at most 240 bytes."""


def play(args: argparse.Namespace, loaded: LoadedTrace, workload: Workload, *, folder: Path) -> Run:
    """Play a workload with the options of the command line; progress goes to stderr.

    Raises:
        EmulatorError: as Job.play; where a run folder is left, a line on stderr says where.
    """
    with own_block() if args.topology is None else contextlib.nullcontext(0) as block:
        return _play(args, loaded, workload, folder=folder, block=block)


def _play(args: argparse.Namespace, loaded: LoadedTrace, workload: Workload, *, folder: Path, block: int) -> Run:
    topology = _topology(args, ranks=len(workload.programs), block=block)
    take_transport_defaults(args, topology)
    place = enter_lab(args, topology)
    if place is not None:
        take_lab_defaults(args)
    job = Job(loaded, workload, topology, _options(args, topology, place), watch(args, topology, place))
    nodes = sum(len(program.communications) for program in workload.programs)
    iterations = args.iterations + args.warmup
    facts = RunFacts(job.run_id, str(loaded.path), len(workload.programs), iterations, nodes * iterations, str(folder))
    is_used = is_run_folder(folder)  # of another run: nothing of this one will be in it
    try:
        with (
            reporting(args, folder),
            RunProgress(
                nodes=nodes,
                iterations=iterations,
                dialling=job.dialling,
                address=args.listen or "",
            ) as progress,
            telemetry(args, facts) as others,
        ):
            return job.play(folder, [progress, RunLog(), *others])
    except EmulatorError:
        if is_run_folder(folder) and not is_used:
            what = "what was measured is" if _has_samples(folder) else "nothing was measured; how the run ended is"
            print(f"charkha: {what} in {visible(str(folder))}", file=sys.stderr)
        raise


def show_interrupted(folder: Path, show: Callable[[Run], None]) -> None:
    """Show what an interrupted run measured, if it left anything."""
    if is_run_folder(folder) and _has_samples(folder):
        show(read_run(folder))


def _has_samples(folder: Path) -> bool:
    with contextlib.suppress(ResultError):
        return any(batch.num_rows for batch in read_run(folder).batches(Part.SAMPLES, ["rank"]))
    return False


def run_folder(args: argparse.Namespace, *, name: str) -> Path:
    """`--out`, or a new folder under runs/ named after the time and what is played.

    Raises:
        InputError: no folder can be made there.
    """
    if args.out is not None:
        check_folder(args.out, "--out")
        return Path(args.out)
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    name = "".join(one if one.isprintable() else "_" for one in name[:_LONGEST_NAME])
    folder = RUNS / f"{stamp}-{name}"
    return folder if not folder.exists() else RUNS / f"{stamp}-{secrets.token_hex(2)}-{name}"


def _topology(args: argparse.Namespace, *, ranks: int, block: int) -> Topology:
    if args.topology is None:
        return default_loopback(ranks, block=block)
    return load_topology(args.topology, ranks=ranks, allow_networks=args.allow_network)


def _options(args: argparse.Namespace, topology: Topology, place: LabPlace | None) -> JobOptions:
    now = datetime.datetime.now(datetime.UTC).astimezone()
    transport_options, transport_parameters = roce_options(args)
    return JobOptions(
        run_id=f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}",
        created=now.isoformat(timespec="milliseconds"),
        command_line=("charkha", *sys.argv[1:]),
        transport=args.transport,
        agents=args.agents,
        iterations=args.iterations,
        warmup=args.warmup,
        overrides=parse_overrides(args.algorithm),
        compute_factor=args.compute,
        scale_bytes=float(args.scale_bytes),
        element_bytes=args.element_bytes,
        credits=args.credits == "on",
        message_bytes=args.message_bytes,
        timeout_s=args.timeout,
        seed=args.seed,
        transport_options=transport_options,
        transport_parameters=transport_parameters,
        listening=listening(args),
        is_by_hand=args.is_by_hand,
        join_timeout_s=args.join_timeout,
        entrances=place.prefixes if place else {},
        lab=place.facts() if place else None,
        calibration=calibration_of(args, topology),
    )
