"""The `charkha` command: help, errors, exit codes, and what it loads."""

import argparse
import errno
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from emulator.cli.main import _parser, main
from emulator.cli.parser import Parser
from emulator.cli.words import SUMMARIES, renamed
from emulator.control.authentication import token_of_environment
from emulator.errors import HostError, InputError, RunInterrupted
from emulator.experiment.spec.settings import SETTINGS
from emulator.option import Level
from emulator.plugins import BUILT_IN, PluginKind
from emulator.suggestions import OLD_WORDS
from tests.support.command import refused

TWELVE = ["run", "bench", "plan", "compare", "report", "sweep", "suite", "trace", "runs", "lab", "agent", "serve"]


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "102")  # argparse leaves 2
        with pytest.raises(SystemExit) as left:
            main(arguments)
    assert left.value.code == 0
    return capsys.readouterr().out


def test_no_child_of_a_command_inherits_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.control.authentication._taken", [])
    monkeypatch.setenv("CHARKHA_TOKEN", "a token of the environment")
    assert main(["help", "topics"]) == 0
    assert "CHARKHA_TOKEN" not in os.environ
    assert token_of_environment() == "a token of the environment"


def leaves() -> Iterator[tuple[list[str], Parser]]:
    """Every command and every action of a command, as words, with its parser."""
    for path in BUILT_IN[PluginKind.COMMANDS]:
        words, parser = path.split(), _parser(path.split())
        for word in words:
            (subparsers,) = parser._subparsers._group_actions
            parser = subparsers.choices[word]
        yield from below(words, parser)


def below(words: list[str], parser: Parser) -> Iterator[tuple[list[str], Parser]]:
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                if " ".join([*words, name]) not in BUILT_IN[PluginKind.COMMANDS]:
                    yield from below([*words, name], inner)


@pytest.mark.parametrize(("words", "parser"), [pytest.param(*leaf, id=" ".join(leaf[0])) for leaf in leaves()])
def test_help_is_short_and_help_all_is_complete(
    words: list[str], parser: Parser, capsys: pytest.CaptureFixture[str]
) -> None:
    brief, full = shown(capsys, *words, "--help"), shown(capsys, *words, "--help-all")
    assert brief.startswith(f"usage: charkha {' '.join(words)}")
    assert f"charkha {' '.join(words)} " in brief.partition("example")[2]
    has_set = "--set" in parser._option_string_actions
    experts = {flag for one in SETTINGS if has_set and one.facts.level is Level.EXPERT for flag in one.flags}
    for action in parser._actions:
        for option in action.option_strings:
            assert option in ({*experts, "-h", "--help", "--help-all"} if action.help == argparse.SUPPRESS else full)
    assert len(brief.splitlines()) <= 25
    assert max(map(len, [*brief.splitlines(), *full.splitlines()])) <= 100


@pytest.mark.parametrize("words", [words for words, parser in leaves() if "--explain" in parser._option_string_actions])
def test_explain_describes_every_column(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, *words, "--explain").splitlines()
    assert sum(bool(re.match(r"  \S.*  \S", line)) for line in lines) >= 3
    assert max(map(len, lines)) <= 100


def test_the_global_help_lists_every_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--help")
    assert re.findall(r"^  (\w+) ", text, re.MULTILINE) == [*TWELVE, "demo", "help"]
    assert len(text.splitlines()) <= 30


@pytest.mark.parametrize("group", ["trace", "runs", "lab", "agent"])
def test_the_help_of_a_group_lists_its_words_with_a_line_each(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, group, "--help")
    for path in (path for path in SUMMARIES if path.startswith(f"{group} ")):
        assert re.search(rf"^  {path.split()[1]} +{re.escape(SUMMARIES[path])}$", text, re.MULTILINE)


@pytest.mark.parametrize(("old", "today"), OLD_WORDS.items())
def test_an_old_word_works_and_names_the_new_one(old: str, today: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--log-level", "error", old, "--help"])
    text = capsys.readouterr()
    assert left.value.code == 0
    assert text.out.startswith(f"usage: charkha {today.partition(' --')[0]} ")
    assert text.err == f"charkha: `charkha {old}` is now `charkha {today}`; the old word works until 1.0\n"


def test_an_agent_needs_no_second_word_and_says_nothing_about_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert renamed(["agent", "--controller", "x"]) == ["agent", "start", "--controller", "x"]
    assert renamed(["agent", "--help"]) == ["agent", "--help"]
    assert renamed(["run", "check"]) == ["run", "check"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("chek t", "trace check"),
        ("trace chek t", "charkha trace check"),
        ("trace expect r", "charkha runs judge"),
        ("agent prob", "charkha lab probe"),
        ("rnu t", "run"),
        ("trace plan t", "charkha plan"),
    ],
)
def test_a_misspelt_word_is_looked_for_at_both_levels(words: str, meant: str) -> None:
    assert f"did you mean {meant!r}?" in refused(*words.split())


def test_options_before_the_command_and_paths_that_look_like_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--log-level", "error", "trace", "check", "run"]) == 2
    assert "run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "kept_away"),
    [
        (
            ["trace", "check", "/nowhere"],
            ["emulator.device", "emulator.views.html", "emulator.controller", "zmq", "pyarrow", "yaml"],
        ),
        (["runs", "list", "/nowhere"], ["emulator.controller", "agents.annexes.zmq"]),
        (["run", "--help"], ["emulator.controller", "emulator.device.lab", "grpc", "zmq", "jsonschema"]),
        (["bench", "--help"], ["emulator.controller", "emulator.device.lab", "grpc", "zmq", "jsonschema"]),
    ],
)
def test_a_command_loads_what_it_needs(arguments: list[str], kept_away: list[str]) -> None:
    code = (
        "import sys, contextlib; from emulator.cli.main import main\n"
        f"with contextlib.suppress(SystemExit): main({arguments})\n"
        "print('loaded', *sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    names = loaded.rpartition("loaded ")[2].split()
    known = BUILT_IN[PluginKind.COMMANDS]
    target = known.get(" ".join(arguments[:2])) or known[arguments[0]]
    assert target.partition(":")[0] in names
    assert not set(kept_away) & set(names)


def failing(error: BaseException) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (HostError("no room\nfor it"), 3, "charkha: no room for it"),
        (RunInterrupted(), 130, "charkha: aborted: interrupted by the user"),
        (KeyboardInterrupt(), 130, "charkha: interrupted"),
        (InputError("\x1b[2Jgone"), 2, r"charkha: \x1b[2Jgone"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x"), 2, "charkha: x: File name too long"),
        (PermissionError(errno.EACCES, "Permission denied", "x"), 2, "charkha: x: Permission denied"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_error_is_one_line_and_an_exit_code(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "check", "t"], failing(error)) == code
    assert capsys.readouterr().err == f"{line}\n"


def test_an_interrupt_before_the_first_step_of_a_coroutine_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    async def play() -> None:
        """Is never begun."""

    def interrupted(*_: object, **__: object) -> NoReturn:
        orphan = play()  # noqa: F841
        raise KeyboardInterrupt

    with warnings.catch_warnings(record=True) as caught:
        assert main(["trace", "check", "t"], interrupted) == 130
    assert (capfd.readouterr().err, caught) == ("charkha: interrupted\n", [])


@pytest.mark.parametrize(
    "error", [ValueError("odd\nvalue"), OSError(errno.EIO, "Input/output error", "f")], ids=["bug", "system"]
)
def test_a_bug_is_one_line_that_names_a_file_with_the_traceback(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["trace", "check", "t"], failing(error)) == 1
    (details,) = tmp_path.iterdir()
    assert "Traceback" in details.read_text()
    err = capsys.readouterr().err
    assert err.startswith(f"charkha: internal error: {type(error).__name__}: ")
    assert (err.count("\n"), str(details) in err) == (1, True)


@pytest.mark.parametrize(
    ("words", "parser"), [pytest.param(*leaf, id=" ".join(leaf[0])) for leaf in leaves() if leaf[0][0] != "box"]
)
def test_no_option_can_be_abbreviated(words: list[str], parser: Parser, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _parser(words)
    monkeypatch.setattr("emulator.cli.main._parser", lambda _: whole)  # built once, not for each option
    for option in (name for action in parser._actions for name in action.option_strings if name.startswith("--")):
        if (short := option[:-1]) not in parser._option_string_actions:
            line = refused(*words, short)
            assert f"unknown option {short!r}; did you mean" in line
            assert f"(see `charkha {' '.join(words)} --help`)" in line
