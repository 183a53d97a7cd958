"""`charkha agent start`: what it refuses before it connects, and what it hands on."""

from pathlib import Path

import pytest

import agents.process
from agents.staying_agent import StayingAgent
from emulator.cli.main import main
from emulator.control import authentication

TARGET = "192.0.2.1:4790"


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> list[StayingAgent]:
    """The agents that would have served."""
    monkeypatch.delenv("CHARKHA_TOKEN", raising=False)
    monkeypatch.setattr(authentication, "_taken", [])
    found: list[StayingAgent] = []
    monkeypatch.setattr(agents.process, "run_staying_agent", found.append)
    return found


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--controller", TARGET], "give --identity FILE, or a token: --token-file FILE, or CHARKHA_TOKEN"),
        (["--controller", "192.0.2.1"], "--controller 192.0.2.1: give HOST:PORT"),
        (["--controller", ":4790"], "--controller :4790: give HOST:PORT"),
        (["--controller", "192.0.2.1:0"], "give HOST:PORT"),
        (["--controller", "192.0.2.1:65536"], "give HOST:PORT"),
        (["--controller", "192.0.2.1:http"], "give HOST:PORT"),
        (["--controller", TARGET, "--token-file", "/nowhere/token"], "/nowhere/token"),
    ],
)
def test_what_cannot_be_is_refused_with_exit_code_2(
    arguments: list[str], problem: str, served: list[StayingAgent], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agent", *arguments]) == 2
    assert problem in capsys.readouterr().err
    assert served == []


def test_the_token_comes_from_a_file_or_the_environment(
    served: list[StayingAgent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("secret from a file\n")
    assert (
        main(["agent", "start", "--controller", TARGET, "--insecure", "--token-file", str(token), "--name", "nic0"])
        == 0
    )
    monkeypatch.setenv("CHARKHA_TOKEN", "secret from the environment")
    elsewhere = ("--controller", "[2001:db8::1]:4790", "--insecure")
    assert main(["agent", *elsewhere, "--interface", "eth1", "--interface", "eth2"]) == 0
    assert [(one.target, one.token) for one in served] == [
        (TARGET, "secret from a file"),
        ("[2001:db8::1]:4790", "secret from the environment"),
    ]
    assert served[0].name == "nic0"
    assert served[0].metrics is None


def test_on_a_unix_socket_no_token_is_needed(served: list[StayingAgent]) -> None:
    assert main(["agent", "start", "--controller", "unix:/run/charkha"]) == 0
    assert (served[0].target, served[0].token) == ("unix:/run/charkha", "")


def test_what_it_says_cannot_move_the_cursor(served: list[StayingAgent], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "start", "--controller", "unix:/run/charkha", "--name", "nic\x1b0"]) == 0
    served[0].report("waiting\x1b[2J")
    assert "\x1b" not in capsys.readouterr().err
