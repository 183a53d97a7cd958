"""What the compiled build consists of: setup.py."""

import runpy
import sys
from typing import Any

import pytest

from emulator.version import BUILD
from tests.support.command import ROOT


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of setup.py, and as `built` what it hands to setuptools."""
    built: dict[str, Any] = {}
    monkeypatch.setattr("setuptools.setup", lambda **said: built.update(said))
    monkeypatch.chdir(ROOT)
    return {**runpy.run_path("setup.py"), "built": built}


def test_without_the_variable_nothing_is_compiled(found: dict[str, Any]) -> None:
    assert found["built"] == {"ext_modules": []}


def test_an_editable_installation_is_pure(monkeypatch: pytest.MonkeyPatch, found: dict[str, Any]) -> None:
    monkeypatch.setenv("CHARKHA_BUILD", "compiled")
    monkeypatch.setattr(sys, "argv", ["setup.py", "editable_wheel"])
    assert found["extensions"]() == []


def test_another_build_is_refused(monkeypatch: pytest.MonkeyPatch, found: dict[str, Any]) -> None:
    monkeypatch.setenv("CHARKHA_BUILD", "fast")
    with pytest.raises(SystemExit, match="CHARKHA_BUILD=fast: it is pure or compiled"):
        found["extensions"]()


def test_every_module_of_the_rooms_is_compiled_or_left_out_with_a_reason(found: dict[str, Any]) -> None:
    compiled = found["modules"]()
    assert all((ROOT / file).is_file() for file in [*compiled, *found["INTERPRETED"]])
    assert "agents/nic/channel.py" in compiled
    assert "agents/nic/sockets.py" not in compiled
    assert len(compiled) == len(set(compiled))


def test_a_build_is_named_by_what_was_imported() -> None:
    import agents.nic.channel

    assert ("pure" if agents.nic.channel.__file__.endswith(".py") else "compiled") == BUILD
