"""Main module of an agent process: `python -m agents --controller TARGET --name NAME`.

On stdin come its token and, each on a line, the addresses that the topology names.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

from emulator.host.orphan import die_with_parent
from emulator.host.resources import LIBRARIES_BYTES, exhausted, reserve


def main(argv: list[str] | None = None) -> int:
    """Run an agent until its run is over; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m agents", description=__doc__)
    parser.add_argument("--controller", required=True, help="unix:PATH or HOST:PORT")
    parser.add_argument("--name", default=f"agent-{os.getpid()}")
    options = parser.parse_args(argv)
    # Ctrl-C reaches every process of the foreground group; the controller decides how the run ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    try:
        reserve(memory_bytes=LIBRARIES_BYTES)
        from agents.process import run_agent  # with all libraries
    except Exception as error:  # the controller passes the line on
        if (lack := exhausted(error)) is None:
            raise
        print(f"charkha agent {options.name}: {lack}", file=sys.stderr)
        return lack.exit_code
    token, *addresses = sys.stdin.read().splitlines() or [""]
    return run_agent(options.controller, token=token.strip(), name=options.name, addresses=addresses)


if __name__ == "__main__":
    sys.exit(main())
