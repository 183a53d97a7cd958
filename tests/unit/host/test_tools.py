"""Tools of this host: what is missing or refused becomes one line."""

import subprocess
from typing import Any

import pytest

from emulator.errors import HostError
from emulator.host.tools import CommandBatch, CommandHost, attempt, finished, listed, on, refusal, require_tools
from tests.support.labs import pretended


def test_missing_tools_are_named_with_their_package() -> None:
    with pytest.raises(HostError, match="no-such-tool is missing on this host: apt-get install no-such-tool"):
        require_tools(["sh", "no-such-tool"])


def test_a_refusal_shows_the_line_of_the_batch() -> None:
    batch = CommandBatch(("ip", "-n", "x", "-batch", "-"), ["link set dev a up", "link set dev b up"])
    said = refusal(batch, 'Cannot find device "b"\nCommand failed -:2\n')
    assert said == '`ip -n x link set dev b up` failed (Cannot find device "b")'


@pytest.mark.parametrize(
    ("stderr", "shown"),
    [
        ("Command failed -:9\n", "`ip -n x -batch -` failed (no reason given)"),
        ("", "`ip -n x -batch -` failed (no reason given)"),
        ("RTNETLINK answers: File exists\nCommand failed -:1\n", "`ip -n x a` failed (File exists)"),
    ],
)
def test_a_refusal_without_a_known_line_shows_the_command(stderr: str, shown: str) -> None:
    assert refusal(CommandBatch(("ip", "-n", "x", "-batch", "-"), ["a", "b"]), stderr) == shown


def test_packages_are_listed_once_with_all_missing_tools() -> None:
    problem = r"^ethtool, ip, tc is missing .*: apt-get install ethtool iproute2$"
    with pretended(missing=("ip", "tc", "ethtool")), pytest.raises(HostError, match=problem):
        require_tools(["tc", "ip", "ethtool", "tc"])


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (FileNotFoundError(), "^ip is missing on this host: apt-get install iproute2$"),
        (PermissionError(13, "Permission denied"), "^ip cannot be run: Permission denied$"),
        (subprocess.TimeoutExpired("ip", 30), "^`ip -json address` does not answer$"),
    ],
)
def test_a_tool_that_does_not_run_is_named_unless_it_is_only_an_attempt(error: Exception, problem: str) -> None:
    def failing(batch: CommandBatch) -> Any:
        raise error

    batch = CommandBatch(("ip", "-json", "address"))
    with on(CommandHost(failing)):
        with pytest.raises(HostError, match=problem):
            finished(batch)
        assert (attempt(batch), listed(batch)) == ("", [])


def test_what_takes_too_long_is_given_up() -> None:
    with pytest.raises(HostError, match="does not answer"):
        finished(CommandBatch(("cat", "/proc/self/fd/0"), limit_s=0))


@pytest.mark.parametrize(("printed", "values"), [('[{"dst": "a"}]\n', [{"dst": "a"}]), ("\n", []), ("Dump\n", [])])
def test_what_is_no_json_lists_nothing(printed: str, values: list[Any]) -> None:
    with pretended(lambda batch: printed):
        assert listed(CommandBatch(("ip", "-json", "route"))) == values
