"""How an agent process ends."""

import asyncio
import sys
from typing import NoReturn

import pytest

from agents import process
from emulator.errors import ControllerRefusal, HostError, RunAborted


@pytest.mark.parametrize(
    "error",
    [
        RunAborted("the controller is gone"),
        ControllerRefusal("the token is not the controller's"),
        HostError("no socket"),
    ],
)
def test_an_agent_that_fails_says_why_in_one_line_and_ends_with_the_code_of_the_error(
    error: RunAborted | ControllerRefusal | HostError,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Failing:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        async def run(self) -> NoReturn:
            raise error

    monkeypatch.setattr(process, "Agent", Failing)
    assert process.run_agent("unix:/nowhere", token="", name="a0", addresses=[]) == error.exit_code != 0
    assert capsys.readouterr().err == f"charkha agent a0: {error}\n"


def test_without_uvloop_an_agent_runs_on_the_loop_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert process._loop_factory() is asyncio.new_event_loop
