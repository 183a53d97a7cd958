"""Where agents are started over SSH, and that secrets are in no command line."""

import pytest

from emulator.annexes.launch.engine import Placement
from emulator.annexes.launch.ssh import Login, SshEngine
from emulator.errors import InputError


@pytest.mark.parametrize(
    ("text", "login"),
    [
        ("server0", Login("server0")),
        ("root@server0:2222", Login("server0", "root", 2222)),
        ("2001:db8::1", Login("2001:db8::1")),
        ("[2001:db8::1]:22", Login("2001:db8::1", None, 22)),
    ],
)
def test_logins(text: str, login: Login) -> None:
    assert Login.parse(text) == login


@pytest.mark.parametrize(
    "text",
    [
        *("", "@server0", "server0:ssh", "server0:0", "server0:65536", f"server0:{'9' * 5000}", "server0:\u0662"),
        *("-oProxyCommand=x", "-oProxyCommand=x@server0", "root@-oProxyCommand=x", "[-oProxyCommand=x]:22"),
        *(
            "server0\n",
            "ser ver0",
            "server0\x1b[2J",
            "server\u202e0",
            "$(id)@server0",
            "root@`id`",
            "a;id",
            "a|id",
            "a\0",
        ),
    ],
)
def test_what_is_no_login(text: str) -> None:
    with pytest.raises(InputError, match=r"write .USER@.HOST") as refused:
        Login.parse(text)
    assert str(refused.value).isprintable()


def test_what_is_printed_ends_agents_with_stdin_and_protects_control() -> None:
    engine = SshEngine(Placement(["a"], ["eth1"]), {"a": Login("server0", "root")}, address="192.0.2.1")
    first, last = engine.describe(["run", "x"]).splitlines()
    assert first.startswith("ssh root@server0 ")
    assert "--until-eof" in first
    assert "--controller 192.0.2.1:PORT" in first
    assert last == "charkha run x --listen 192.0.2.1:PORT --identity FOLDER/controller.pem"
