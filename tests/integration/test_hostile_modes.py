"""A run with a hostile agent, or a hostile controller, ends as it must: by name, or as if nothing had been said."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.support.hostile_modes import AGENT_MODES, CONTROLLER_MODES, HOSTILE, play, session_plan


def test_there_are_enough() -> None:
    assert len(AGENT_MODES) + len(CONTROLLER_MODES) >= 40


@pytest.mark.parametrize("name", AGENT_MODES)
def test_a_hostile_agent_is_named_by_the_controller(name: str, tmp_path: Path) -> None:
    mode = AGENT_MODES[name]
    ends = asyncio.run(play(session_plan(tmp_path / "trace"), mode, is_agent=True))
    assert re.search(mode.says, ends.controller), ends
    assert "internal" not in ends.controller
    assert "hangs" not in ends.agents.values()


@pytest.mark.parametrize("name", CONTROLLER_MODES)
def test_an_agent_does_not_obey_a_hostile_controller(name: str, tmp_path: Path) -> None:
    mode = CONTROLLER_MODES[name]
    ends = asyncio.run(play(session_plan(tmp_path / "trace"), mode, is_agent=False))
    assert re.search(mode.says, f"{ends.agents[HOSTILE]}\n{ends.controller}"), ends  # whoever saw it first
    assert "internal" not in ends.agents[HOSTILE]
    assert "hangs" not in ends.agents.values()


def test_an_agent_is_told_which_of_its_messages_was_refused(tmp_path: Path) -> None:
    mode = AGENT_MODES["counts what is no number"]
    ends = asyncio.run(play(session_plan(tmp_path / "trace"), mode, is_agent=True))
    assert re.search("takes no more from this agent: .* steal_fraction is not a finite number", ends.agents[HOSTILE])
