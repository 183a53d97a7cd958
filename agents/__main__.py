"""Main module of an agent process: `python -m agents --controller TARGET --name NAME`.

On stdin come its token and, each on a line, the addresses that the topology names. If TARGET is "-", the target and a
file for its output come before them: the agent was started before they were known, and loads its modules meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
import sys
from importlib import import_module
from pathlib import Path

from emulator.host.resources import LIBRARIES_BYTES, die_with_parent, exhausted, reserve


def main(argv: list[str] | None = None) -> int:
    """Run an agent until its run is over; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m agents", description=__doc__)
    parser.add_argument("--controller", required=True, help="unix:PATH, HOST:PORT, or - for stdin")
    parser.add_argument("--name", default=f"agent-{os.getpid()}")
    options = parser.parse_args(argv)
    # Ctrl-C reaches every process of the foreground group; the controller decides how the run ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    greeting = _load_and_wait(options) if options.controller == "-" else None
    try:
        reserve(memory_bytes=LIBRARIES_BYTES)
        from agents.process import run_agent  # with all libraries
    except Exception as error:  # the controller passes the line on
        if (lack := exhausted(error)) is None:
            raise
        print(f"charkha agent {options.name}: {lack}", file=sys.stderr)
        return lack.exit_code
    token, *addresses = (sys.stdin.read().splitlines() if greeting is None else greeting) or [""]
    return run_agent(options.controller, token=token.strip(), name=options.name, addresses=addresses)


def _load_and_wait(options: argparse.Namespace) -> list[str]:
    """Load the modules, then take target and log from stdin; returns the rest of it."""
    gc.disable()  # modules stay
    with contextlib.suppress(Exception):  # which comes again where it is reported
        reserve(memory_bytes=LIBRARIES_BYTES)
        import_module("agents.process")
    gc.freeze()
    gc.enable()
    lines = sys.stdin.read().splitlines()
    if not lines:  # there is no run
        sys.exit(0)
    options.controller, log_file, *rest = lines
    with Path(log_file).open("ab") as log:
        for number in (1, 2):
            os.dup2(log.fileno(), number)
    return rest


if __name__ == "__main__":
    sys.exit(main())
