"""The `charkha` command: its parser, and the one place where errors become lines and exit codes."""

from __future__ import annotations

import argparse
import errno
import gc
import io
import os
import sys
import warnings
from collections.abc import Callable, Collection, Sequence
from importlib.util import find_spec

from emulator import exit_codes
from emulator.cli.parser import Parser
from emulator.cli.words import BOX, COMMANDS, SUMMARIES, path_of, renamed
from emulator.control.authentication import token_of_environment
from emulator.errors import FULL, EmulatorError, HostError
from emulator.host.resources import LIBRARIES_BYTES, exhausted, reserve
from emulator.host.stderr_log import log_to_stderr, write_traceback
from emulator.plugins import BUILT_IN, PluginKind, is_known, load
from emulator.suggestions import OLD_WORDS
from emulator.version import BUILD, VERSION
from emulator.visible import visible

IS_COMPLETE = find_spec("emulator.cli.commands") is not None
"""False in charkha-agent (packaging/agent), which has `agent start` alone."""
_DESCRIPTORS = 8
"""Files, their folders and the kernel's: whoever has fewer learns it before anything is made that would be left."""
_LISTED = "\n".join(
    "\n".join([title, *(f"  {path:<12}{summary}" for path, summary in group.items() if " " not in path)])
    for title, group in COMMANDS.items()
)
_DESCRIPTION = f"""\
Play MLCommons Chakra execution traces as network traffic and measure every collective.

{_LISTED}
"""
_EPILOG = """\
example: charkha run lab/examples/transformer-8r    (`charkha run --help` shows its options)
`charkha trace --help` lists the words below `trace`; docs/commands.md lists all.
exit codes: 0 done, 1 failed, 2 bad input, 3 the host lacks something, 4 regression, 5 FAIL,
6 TESTER-LIMITED, 7 UNDECIDED (docs/expect.md), 130 interrupted
"""
_DESCRIPTIONS = {
    "trace": "Check, make, convert, show and share traces.",
    "agent": "Play ranks on this machine for a controller elsewhere, and prepare machines for it.",
}
_AGENT_ALONE = f"""\
Play the ranks of this machine for a Charkha controller elsewhere. This is charkha-agent; charkha has all commands.

  agent start  {SUMMARIES["agent start"]}
"""
_AGENT_EPILOG = "example: charkha agent start --controller 192.0.2.1:4790 --identity server1.pem\n"


def main(argv: Sequence[str] | None = None, act: Callable[[Sequence[str] | None], int] | None = None) -> int:
    """Run one command and return its exit code. Results go to stdout, everything else to stderr.

    Args:
        argv: the words; None: those of this process.
        act: what runs them; None: the command that they name.
    """
    # BLAS would start one spinning thread per core for numpy, here and in every agent; nothing uses them.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # else it prints every handshake that fails
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a locale may lack a dash, a path may not be text
    try:
        code = (act or _run)(argv)
        if sys.stdout is not None:  # None: closed before the start
            sys.stdout.flush()
    except EmulatorError as error:
        print("charkha:", visible(str(error)), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)  # it came before the await
        print("charkha: interrupted", file=sys.stderr)
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        _drop_output()  # the reader has had enough: not a failure
        return exit_codes.STDOUT_CLOSED
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.EACCES) and error.filename is not None:
            print(f"charkha: {visible(os.fsdecode(error.filename))}: {error.strerror}", file=sys.stderr)
            return exit_codes.BAD_INPUT
        if error.errno not in FULL or error.filename is not None:
            return _internal_error(error)
        _drop_output()
        print(f"charkha: the result cannot be written to stdout ({error.strerror})", file=sys.stderr)
        return exit_codes.HOST_LACKS
    except Exception as error:  # the root: a user sees one line, not a traceback
        return _internal_error(error)
    return code


def run(words: Sequence[str]) -> int:
    """Run a command in the process of another program, and return its exit code.

    Raises:
        EmulatorError: what the command refuses.
    """
    args = build_parser([path_of(words)]).parse_args(words)
    handler: Callable[[argparse.Namespace], int | None] = args.handler
    return handler(args) or exit_codes.DONE


def _run(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    reserve(descriptors=_DESCRIPTORS, memory_bytes=LIBRARIES_BYTES)
    words = renamed(words)
    token_of_environment()  # children do not inherit it
    args = _parser(words).parse_args(words)
    if not gc.isenabled():  # the command's own process, see start.py
        gc.freeze()
        gc.enable()
    log_to_stderr(args.log_level)
    handler: Callable[[argparse.Namespace], int | None] = args.handler
    return handler(args) or exit_codes.DONE


def _parser(words: Sequence[str]) -> Parser:
    """The parser for a command line. It loads the module of one command only: all of them take a second."""
    path = path_of(words)
    known = {words.partition(" ")[0] for words in BUILT_IN[PluginKind.COMMANDS]}
    is_agent = path in ("agent", "agent start")
    if not IS_COMPLETE and not is_agent and path.partition(" ")[0] in known:
        raise HostError(
            f"{path} is not part of charkha-agent: pip uninstall charkha-agent, and install charkha in its place"
        )
    return build_parser([path])


def build_parser(loaded: Collection[str]) -> Parser:
    """The parser of all commands; those that are not loaded have no arguments."""
    description, epilog = (_DESCRIPTION, _EPILOG) if IS_COMPLETE else (_AGENT_ALONE, _AGENT_EPILOG)
    parser = Parser(prog="charkha", usage="charkha COMMAND [options]", description=description, epilog=epilog)
    parser.add_argument("--version", advanced=True, action="version", version=f"charkha {VERSION} ({BUILD})")
    parser.add_argument(
        "--log-level",
        advanced=True,
        default="warning",
        choices=("debug", "info", "warning", "error"),
        help="what goes to stderr; info: agents and iterations, debug: libraries too (default: warning)",
    )
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, prog="charkha", help=argparse.SUPPRESS)
    added = [path for path in loaded if path and " " not in path and is_known(PluginKind.COMMANDS, path)]
    paths = list(dict.fromkeys([*BUILT_IN[PluginKind.COMMANDS], *added])) if IS_COMPLETE else ["agent start"]
    elsewhere = {path.split()[-1]: path for path in paths if path != "agent start"} | dict(
        OLD_WORDS if IS_COMPLETE else {}
    )
    parser.elsewhere, parser.unlisted = elsewhere, (BOX,)
    for word in dict.fromkeys(path.split()[0] for path in paths):
        below = [path for path in paths if path.startswith(f"{word} ")]
        if word in loaded and word in paths:
            load(PluginKind.COMMANDS, word)(subparsers)
        else:
            example = f"example:\n  charkha {below[0]} --help\n" if below else None
            subparsers.add_parser(word, description=_DESCRIPTIONS.get(word), epilog=example)
        if below:
            subparsers.choices[word].elsewhere = elsewhere
            _add_below(subparsers.choices[word], below, loaded)
    return parser


def _add_below(parser: Parser, paths: Sequence[str], loaded: Collection[str]) -> None:
    """Add the words below a word; not if it takes an argument in their place, as `bench COLLECTIVE` does."""
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not actions and any(not action.option_strings for action in parser._actions):
        return
    subparsers = actions[0] if actions else parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for path in paths:
        word = path.split()[-1]
        if path in loaded:
            load(PluginKind.COMMANDS, path)(subparsers)
        else:
            subparsers.add_parser(word, help=SUMMARIES[path])


def _drop_output() -> None:
    """Discard what is left, so that the interpreter does not complain when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _internal_error(error: Exception) -> int:
    lack = exhausted(error)
    if lack is not None:
        print(f"charkha: {lack}", file=sys.stderr)
        return lack.exit_code
    what = visible(f"{type(error).__name__}: {error}")
    try:
        report = f"please report it with {write_traceback(error)}"
    except OSError:  # no space for it
        report = "please report it"
    print(f"charkha: internal error: {what} (a bug; {report})", file=sys.stderr)
    return exit_codes.FAILED
