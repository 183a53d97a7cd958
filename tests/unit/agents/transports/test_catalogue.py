"""Transports by name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agents.transports import catalogue
from agents.transports.catalogue import make_transport
from emulator.errors import PlanError
from emulator.transports.registry import TRANSPORTS


@pytest.mark.parametrize("name", TRANSPORTS)
def test_only_the_named_transport_is_loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    def load(module: str) -> SimpleNamespace:
        loaded.append(module)
        return SimpleNamespace(make=lambda **given: given)

    monkeypatch.setattr(catalogue, "import_module", load)
    made = make_transport(name, message_bytes=5, run="r")
    assert loaded == [f"agents.transports.{name}.transport"]
    assert made == {"message_bytes": 5, "run": "r", "seed": 0, "options": {}, "devices": {}}


def test_an_unknown_transport_is_refused() -> None:
    with pytest.raises(PlanError, match="there is no transport 'tcp'"):
        make_transport("tcp", message_bytes=1, run="r")


def test_options_that_a_transport_does_not_have_are_refused_by_name() -> None:
    for name in TRANSPORTS:
        with pytest.raises(PlanError, match="colour"):
            make_transport(name, message_bytes=1 << 20, run="r", options={"colour": "red"})
