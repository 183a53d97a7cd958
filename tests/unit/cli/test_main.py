"""The commands: what the help says of each, without loading them all."""

import argparse
import asyncio
import logging
import subprocess
import sys
from importlib import import_module

import pytest

from emulator.cli.main import COMMANDS, _is_news, main


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_says_what_the_command_says(name: str) -> None:
    subparsers = argparse.ArgumentParser().add_subparsers()
    import_module(f"emulator.cli.commands.{name}").add_parser(subparsers)
    (found,) = subparsers._choices_actions
    assert (found.dest, found.help) == (name, COMMANDS[name])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([name, "--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: charkha {name}")
    assert "example" in shown


def test_options_before_the_command_and_paths_that_look_like_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--log-level", "error", "check", "run"]) == 2
    assert "run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "kept_away"),
    [
        (
            ["check", "/nowhere"],
            ["emulator.lab", "emulator.views.html", "emulator.controller", "emulator.dut", "zmq"],
        ),
        (["runs", "list", "/nowhere"], ["emulator.controller", "agents.transports.zmq", "scipy"]),
        (["run", "--help"], ["emulator.controller", "emulator.lab", "scipy", "grpc", "zmq", "jsonschema"]),
        (["bench", "--help"], ["emulator.controller", "emulator.lab", "scipy", "grpc", "zmq", "jsonschema"]),
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
    assert f"emulator.cli.commands.{arguments[0]}" in names
    assert not set(kept_away) & set(names)


@pytest.mark.parametrize(
    ("name", "problem", "is_shown"),
    [
        ("grpc._cython.cygrpc", asyncio.CancelledError(), False),
        ("grpc._cython.cygrpc", ValueError(), True),
        ("emulator.views.html.live", asyncio.CancelledError(), True),
    ],
)
def test_calls_that_end_with_their_server_are_not_told_as_exceptions(
    name: str, problem: BaseException, *, is_shown: bool
) -> None:
    about = (type(problem), problem, None)
    record = logging.LogRecord(name, logging.ERROR, __file__, 1, "a call ended", (), about)
    assert _is_news(record) is is_shown
