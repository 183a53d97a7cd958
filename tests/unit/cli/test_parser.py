"""Two levels of help, and usage errors in one line."""

import argparse

import pytest

from emulator.cli.parser import Parser
from emulator.errors import InputError


def parser() -> Parser:
    made = Parser(
        prog="charkha play", description="Play a trace.", epilog="example:\n  charkha play t\n\nMore to know."
    )
    made.add_argument("trace", metavar="TRACE", help="a folder")
    made.add_argument("--ranks", metavar="N", required=True, help="how many")
    made.add_argument("--quiet", action="store_true", advanced=True, help="no table")
    pace = made.add_argument_group("pace")
    pace.add_argument("--fast", action="store_true", help="at once")
    pace.add_argument("--pace", choices=("quick", "slow"), help=argparse.SUPPRESS)
    roce = made.add_advanced_group("RoCE")
    roce.add_argument("--dscp", metavar="D", help="code point")
    roce.add_argument("--qps", metavar="Q", advanced=False, help="queue pairs")
    return made


def test_help_lists_common_options_and_the_example() -> None:
    assert parser().format_help().splitlines() == [
        "usage: charkha play --ranks N TRACE [options]",
        "",
        "Play a trace.",
        "",
        "arguments:",
        "  TRACE      a folder",
        "",
        "options:",
        "  --ranks N  how many",
        "  --fast     at once",
        "  --qps Q    queue pairs",
        "",
        "example:",
        "  charkha play t",
        "",
        "charkha play --help-all shows 2 more options",
    ]


def test_one_more_option_is_one() -> None:
    made = Parser(prog="charkha")
    made.add_argument("--fast", action="store_true", advanced=True)
    assert made.format_help().splitlines()[-1] == "charkha --help-all shows 1 more option"


def test_help_all_lists_every_option_in_its_group() -> None:
    text = parser().format_full_help()
    titles = [line for line in text.splitlines() if line.endswith(":")]
    assert titles == ["arguments:", "options:", "pace:", "RoCE:", "example:"]
    assert text.index("RoCE:") < text.index("--dscp D") < text.index("--qps Q") < text.index("More to know.")
    assert "--help-all" not in text


def test_help_without_advanced_options_is_complete() -> None:
    made = Parser(prog="charkha", epilog="example:\n  charkha x\n\nMore to know.")
    made.add_argument("--fast", action="store_true")
    assert made.format_help() == made.format_full_help()
    assert "More to know." in made.format_help()


@pytest.mark.parametrize("option", ["--help", "--help-all", "-h"])
def test_help_needs_nothing_that_is_required(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parser().parse_args([option])
    assert left.value.code == 0
    assert ("--dscp" in capsys.readouterr().out) == (option == "--help-all")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["t"], "the following arguments are required: --ranks"),
        (["t", "--ranks"], "argument --ranks: expected one argument"),
        (["t", "--rank", "2"], "unknown option '--rank'; did you mean '--ranks'?"),
        (["t", "--ranks=1", "--fsat=1"], "unknown option '--fsat'; did you mean '--fast'?"),
        (["t", "--ranks", "1", "-v"], "unknown option '-v'"),
        (["t", "u", "--ranks", "1"], "unexpected argument 'u'"),
        (["t", "--ranks", "1", "--", "--rank"], "unexpected argument '--rank'"),
        (["t", "--ranks", "1", "--pace", "quik"], "argument --pace: there is no 'quik'; did you mean 'quick'?"),
        (["t", "--ranks", "1", "--pace", "9"], "argument --pace: there is no '9'; choose from quick, slow"),
    ],
)
def test_usage_errors_name_the_command_to_look_at(words: list[str], problem: str) -> None:
    with pytest.raises(InputError) as refused:
        parser().parse_args(words)
    assert str(refused.value) == f"{problem} (see `charkha play --help`)"


def test_an_action_of_a_command_names_itself() -> None:
    made = Parser(prog="charkha lab")
    made.add_subparsers().add_parser("up").add_argument("--force", action="store_true")
    with pytest.raises(InputError, match=r"unknown option '--forc'; did .* \(see `charkha lab up --help`\)"):
        made.parse_args(["up", "--forc"])
    with pytest.raises(InputError, match=r"unknown option '--new' \(see `charkha lab --help`\)"):
        made.parse_args(["--new", "up"])
    with pytest.raises(InputError, match=r"there is no 'uqp'; did you mean 'up'\? \(see `charkha lab --help`\)"):
        made.parse_args(["uqp"])


@pytest.mark.parametrize("value", ["-5", "-0.5", "-", "-1 of 2"])
def test_numbers_and_texts_that_begin_with_a_dash_are_values(value: str) -> None:
    assert parser().parse_args(["t", "--ranks", value]).ranks == value


def test_options_of_another_program_are_its_own() -> None:
    made = Parser(prog="charkha lab exec")
    made.add_argument("host")
    made.add_argument("command", nargs=argparse.REMAINDER)
    assert made.parse_args(["h0", "ip", "--json"]).command == ["ip", "--json"]


def test_explain_prints_the_legend_of_a_table_and_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("emulator.views.terminal.sweep.EXPLAIN", "busbw  bus bandwidth, GB/s", raising=False)
    made = parser()
    made.add_explain("sweep")
    with pytest.raises(SystemExit) as left:
        made.parse_args(["--explain"])
    assert (left.value.code, capsys.readouterr().out) == (0, "busbw  bus bandwidth, GB/s\n")


def test_help_lists_the_actions_of_a_command_with_what_they_do() -> None:
    made = Parser(prog="charkha lab")
    actions = made.add_subparsers(title="actions", metavar="ACTION")
    actions.add_parser("up", help="bring up a lab")
    actions.add_parser("status", help="draw labs")
    assert made.format_help().splitlines() == [
        "usage: charkha lab ACTION ...",
        "",
        "actions:",
        "  up      bring up a lab",
        "  status  draw labs",
    ]
