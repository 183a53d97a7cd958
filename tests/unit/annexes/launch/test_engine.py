"""What agents are started with: options for their interfaces, and secrets in files only."""

from pathlib import Path

import pytest

from emulator.annexes.launch.engine import CONTROLLER, Placement, issue_identities
from emulator.control.certificates.identity import check_identity
from emulator.control.certificates.roles import Role


def test_each_has_its_role_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    made = issue_identities(["a", "b"], controller="controller", addresses=["launch.test"], lasting_s=60)
    assert [*scratch.iterdir()] == []
    for name, role in (("controller", Role.CONTROLLER), ("a", Role.AGENT), ("b", Role.AGENT)):
        path = tmp_path / name
        path.write_text(made[name])
        path.chmod(0o600)
        check_identity(path, role)
    assert len(set(made.values())) == 3


@pytest.mark.parametrize(
    ("target", "has_identities", "security"),
    [
        ("unix:/tmp/x", True, []),
        ("192.0.2.1:4790", True, ["--identity", "/s/a"]),
        ("192.0.2.1:4790", False, ["--insecure", "--token-file", "/s/a"]),
    ],
)
def test_words_of_an_agent(target: str, has_identities: bool, security: list[str]) -> None:
    placement = Placement(["a"], ["eth1", "eth2"], has_identities=has_identities)
    words = placement.arguments("a", target, "/s/a")
    ports = ["--interface", "eth1", "--interface", "eth2"]
    assert words == ["agent", "start", "--controller", target, "--name", "a", *ports, *security]


def test_everybody_has_the_same_token_and_it_is_new() -> None:
    placement = Placement(["a", "b"], has_identities=False)
    first, second = (set(placement.secrets(["h"]).values()) for _ in range(2))
    assert placement.secrets(["h"]).keys() == {"a", "b", CONTROLLER}
    assert len(first) == len(second) == 1
    assert first != second
