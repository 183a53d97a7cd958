"""The `charkha` command: parser, exit codes, and the one place where errors become lines."""

from __future__ import annotations

import argparse
import errno
import io
import logging
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import version

from emulator.cli.visible import visible
from emulator.errors import EmulatorError, HostError

_EPILOG = """example:
  charkha run lab/examples/transformer-8r        play a trace over loopback and print the table

exit codes: 0 done, 1 the run failed, 2 bad input, 3 the host lacks something, 4 a gate found a regression,
  130 interrupted
"""
INTERRUPTED = 130
CUT_OFF = 141
"""What a shell reports of a command that SIGPIPE ended."""
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Results go to stdout, everything else to stderr."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # not every locale has a dash, nor every path a text
    try:
        code = _run(argv)
        if sys.stdout is not None:  # None: it was closed, nobody wants the result
            sys.stdout.flush()
    except EmulatorError as error:
        print("charkha:", visible(" ".join(str(error).splitlines())), file=sys.stderr)  # names can hold line ends
        return error.exit_code
    except KeyboardInterrupt:
        print("charkha: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()  # whoever read it has had enough: no failure of the run, and nothing to say
        return CUT_OFF
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            return _internal_error(error)
        _drop_output()
        print(f"charkha: the result cannot be written to stdout ({error.strerror})", file=sys.stderr)
        return HostError.exit_code
    except Exception as error:  # the root: whatever this is, a user sees one line
        return _internal_error(error)
    return code


def _run(argv: Sequence[str] | None) -> int:
    args = _parser().parse_args(argv)
    logging.basicConfig(level=args.log_level.upper(), format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    handler: Callable[[argparse.Namespace], int] = args.handler
    return handler(args)


def _parser() -> argparse.ArgumentParser:
    # Loading all this takes most of a second, in which a Ctrl-C must end as at any other time.
    from emulator.cli import (
        agent,
        audit,
        bench,
        calibrate,
        check,
        compare,
        controller,
        export,
        generate,
        lab,
        plan,
        probe,
        report,
        run,
        runs,
        watch,
    )

    parser = argparse.ArgumentParser(
        prog="charkha",
        description="Play MLCommons Chakra execution traces as network traffic and measure every collective.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"charkha {version('charkha')}")
    parser.add_argument(
        "--log-level", default="warning", choices=("debug", "info", "warning", "error"), help="default: warning"
    )
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (
        run,
        bench,
        report,
        check,
        plan,
        compare,
        runs,
        generate,
        audit,
        export,
        lab,
        controller,
        agent,
        calibrate,
        probe,
        watch,
    ):
        command.add_parser(subparsers)
    return parser


def _drop_output() -> None:
    """Keep the interpreter from complaining when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _internal_error(error: Exception) -> int:
    with tempfile.NamedTemporaryFile(
        "w", prefix="charkha-error-", suffix=".txt", encoding="utf-8", errors="backslashreplace", delete=False
    ) as details:
        traceback.print_exception(error, file=details)
    what = visible(f"{type(error).__name__}: {error}")
    print(f"charkha: internal error: {what} (a bug; please report it with {details.name})", file=sys.stderr)
    return 1
