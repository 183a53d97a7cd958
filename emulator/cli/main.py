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
from importlib import import_module
from importlib.metadata import version

from emulator.errors import FULL, EmulatorError, HostError, InputError
from emulator.visible import visible

_EPILOG = """example:
  charkha run lab/examples/transformer-8r        play a trace over loopback and print the table

exit codes: 0 done, 1 the run failed, 2 bad input, 3 the host lacks something, 4 a gate found a regression,
  130 interrupted
"""
COMMANDS = {
    "run": "play a trace and measure every collective",
    "bench": "sweep one collective over sizes",
    "report": "look at a run: one HTML file",
    "check": "validate and summarise a trace",
    "plan": "loads of links and ideal times of a trace on a topology",
    "compare": "compare groups of runs, as of two firmware versions",
    "runs": "list, show and prune run folders",
    "generate": "make a synthetic trace",
    "convert": "other forms of a trace into plain Chakra ET",
    "audit": "check captured RoCEv2 frames",
    "export": "hand a run on to another tool",
    "lab": "raise a lab of namespaces with a software switch as DUT",
    "controller": "as run, with agents that are all started by hand",
    "agent": "play ranks on this machine for a controller",
    "calibrate": "what the tester itself costs: rate, per-message cost, timer jitter, clock error",
    "probe": "crafted frames into a device: what passes, what is altered, what is dropped",
    "watch": "follow a run over MQTT",
}
"""Command → what the help says of it. The module of the same name adds its options."""
INTERRUPTED = 130
CUT_OFF = 141
"""What a shell reports of a command that SIGPIPE ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Results go to stdout, everything else to stderr."""
    # numpy's and scipy's BLAS would start a thread a core each, here and in agents, which spin and have nothing to do.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
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
        if error.errno == errno.ENAMETOOLONG and error.filename is not None:
            print(f"charkha: {visible(os.fsdecode(error.filename))}: {error.strerror}", file=sys.stderr)
            return InputError.exit_code
        if error.errno not in FULL or error.filename is not None:
            return _internal_error(error)
        _drop_output()
        print(f"charkha: the result cannot be written to stdout ({error.strerror})", file=sys.stderr)
        return HostError.exit_code
    except Exception as error:  # the root: whatever this is, a user sees one line
        return _internal_error(error)
    return code


def _run(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    args = _parser(next((word for word in words if word in COMMANDS), None)).parse_args(words)
    log = logging.StreamHandler()
    log.setFormatter(_Formatter("%(levelname)s %(name)s: %(message)s"))
    log.addFilter(_is_news)
    logging.basicConfig(level=args.log_level.upper(), handlers=[log])
    handler: Callable[[argparse.Namespace], int] = args.handler
    return handler(args)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a record says more than that a server which stops cancels its calls: gRPC calls that an exception."""
    kind = record.exc_info[0] if record.exc_info else None
    return not (record.name.startswith("grpc") and kind is not None and kind.__name__ == "CancelledError")


class _Formatter(logging.Formatter):
    """A line a record, whatever the names in it are."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return visible(super().formatMessage(record))


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    """The parser; of the commands only the chosen one is loaded: all of them would take a second."""
    parser = argparse.ArgumentParser(
        prog="charkha",
        description="Play MLCommons Chakra execution traces as network traffic and measure every collective.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"charkha {version('charkha')}")
    parser.add_argument(
        "--log-level",
        default="warning",
        choices=("debug", "info", "warning", "error"),
        help="on stderr; info: agents and iterations of a run as lines, debug: also libraries (default: warning)",
    )
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        if name == chosen:
            import_module(f"emulator.cli.commands.{name}").add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
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
