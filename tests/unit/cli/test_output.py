"""Results go to stdout, notes to stderr, and names control nothing."""

import json

import pytest
from rich.table import Table

from emulator.cli.output import notify, print_json, print_tables


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1, None]})
    assert json.loads(capsys.readouterr().out) == {"a": [1, None]}


def test_lines_are_not_wrapped_and_tables_follow_them(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("title")
    table.add_row("cell")
    print_tables("x " * 200, "", table)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ("x " * 200).rstrip()
    assert lines[1] == ""
    assert any("cell" in line for line in lines[2:])


def test_markup_in_a_line_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_tables("runs/[bold]a[/bold]:smile:\x1b[2J")
    assert capsys.readouterr().out == "runs/[bold]a[/bold]:smile:\\x1b[2J\n"


def test_a_note_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    notify("two\nlines")
    streams = capsys.readouterr()
    assert (streams.out, streams.err) == ("", "charkha: two\\nlines\n")
