"""What `run` and `check` share: from options to a workload that is proven to finish."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.status import Status

from emulator.trace.meaning import TraceOptions
from emulator.trace.model import Workload
from emulator.trace.workload import build_workload
from emulator.wire.trace.load import LoadedTrace, load_trace


def read_workload(args: argparse.Namespace) -> tuple[LoadedTrace, Workload]:
    """Read the trace that the options name, and understand it; says on stderr what it is doing.

    Raises:
        TraceError: the trace cannot be read or played.
        InputError: the group file cannot be read.
    """
    with Status("reading the trace", console=Console(stderr=True)) as status:

        def on_rank(done: int, ranks: int) -> None:
            status.update(f"reading the trace: {done} of {ranks} ranks")

        loaded = load_trace(args.trace, ranks=args.ranks, groups=args.groups, on_rank=on_rank)
        status.update("proving that the run can finish")
        options = TraceOptions(args.lenient, args.element_bytes or 1, args.scale_bytes)
        return loaded, build_workload(loaded.traces, groups=loaded.groups, options=options)
