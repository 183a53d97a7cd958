"""Names from traces reach the terminal as text only."""

import io
from contextlib import redirect_stdout

import pytest
from rich.table import Table
from rich.text import Text

from emulator.views.terminal.console import console


@pytest.mark.parametrize("is_terminal", [False, True])
def test_names_in_tables_do_not_control_the_terminal(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")  # no colours: every escape would be the trace's
    out = _print("a\x1b[2J\x1b]0;title\x07", is_terminal=is_terminal)

    assert "\x1b" not in out
    assert r"a\x1b[2J" in out


def test_an_address_is_not_an_emoji() -> None:
    table = Table("fd00:1234::", ":a:")
    table.add_row("fd00:ab:1::2", ":1234:")
    out = io.StringIO()
    with redirect_stdout(out):
        console().print(table)
    assert all(text in out.getvalue() for text in ("fd00:1234::", ":a:", "fd00:ab:1::2", ":1234:"))


def test_no_line_ends_in_blanks() -> None:
    lines = _print("a much longer line", is_terminal=False).splitlines()

    assert [line.split() for line in lines] == [["short"], ["a", "much", "longer", "line"], ["last"]]
    assert lines == [line.rstrip() for line in lines]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _print(name: str, *, is_terminal: bool) -> str:
    out = Terminal() if is_terminal else io.StringIO()
    table = Table.grid(padding=(0, 2))
    table.add_row(Text("short"))
    table.add_row(Text(name))
    with redirect_stdout(out):
        console().print(table)
        console().print("last", soft_wrap=True)
    return out.getvalue()
