"""Where a controller listens, and the files that belong to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import InputError, PlanError
from emulator.experiment.settle.listening import listening
from emulator.experiment.spec.spec import Agents


def test_local_agents_need_no_address() -> None:
    assert listening(Agents()) is None


@pytest.mark.parametrize(
    ("agents", "problem"),
    [
        (Agents(by_hand=True), "agents started by hand need an address: give --listen HOST:PORT or unix:PATH"),
        (Agents(token_file="t"), "--token-file is for --listen"),
        (Agents(tls_cert="c"), "--tls-cert is for --listen"),
        (Agents(tls_key="k"), "--tls-key is for --listen"),
        (Agents(tls_ca="a"), "--tls-ca is for --listen"),
    ],
)
def test_an_address_and_its_files_belong_together(agents: Agents, problem: str) -> None:
    with pytest.raises(PlanError) as caught:
        listening(agents)
    assert str(caught.value) == problem


def test_an_address_with_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret-secret-secret\n")
    (tmp_path / "token").chmod(0o600)
    found = listening(Agents(listen="127.0.0.1:4790", token_file=str(tmp_path / "token")))
    assert found is not None
    assert found.target == "127.0.0.1:4790"


def test_a_token_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing"):
        listening(Agents(listen="127.0.0.1:4790", token_file=str(tmp_path / "nothing")))
