"""Error messages and exit codes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator import errors


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (errors.EmulatorError("what"), "what", 1),
        (errors.TraceError("is odd"), "is odd", 2),
        (errors.TraceError("is odd", path="a.et"), "a.et: is odd", 2),
        (errors.TraceError("is odd", path="a.et", offset=0), "a.et, offset 0: is odd", 2),
        (errors.TraceError("is odd", path="a.et", rank=0, node=0), "a.et, rank 0, node 0: is odd", 2),
        (errors.TopologyError("is odd"), "is odd", 2),
        (errors.TopologyError("is odd", path="t.yaml"), "t.yaml: is odd", 2),
        (errors.TopologyError("is odd", path="t.yaml", key="hosts.0", line=3), "t.yaml:3, hosts.0: is odd", 2),
        (errors.TopologyError("is odd", key="hosts.0"), "hosts.0: is odd", 2),
        (errors.ResultError("is odd"), "is odd", 2),
        (errors.ResultError("is odd", path="runs/1"), "runs/1: is odd", 2),
        (errors.PlanError("no"), "no", 2),
        (errors.LocalProtocolError("bug"), "bug", 1),
        (errors.RemoteProtocolError("peer"), "peer", 1),
        (
            errors.AgentLost("agent-1", ranks=[4, 5, 7], reason="signal 9"),
            "agent agent-1 is lost (signal 9); its ranks: 4-5, 7",
            1,
        ),
        (
            errors.AgentLost("agent-1", ranks=[], reason="signal 9", storage=["store0:eth0"]),
            "agent agent-1 is lost (signal 9); its ranks: none; its storage: store0:eth0",
            1,
        ),
        (
            errors.RunTimeout("x", seconds=2, between=(3, 4), silent_s=2.14, silent="store0:eth0"),
            "nothing happened for 2 s while waiting for x; store0:eth0 has not answered rank 3 for 2.1 s",
            1,
        ),
        (errors.RunTimeout("rank 3", seconds=2.5), "nothing happened for 2.5 s while waiting for rank 3", 1),
        (
            errors.RunTimeout("x", seconds=2, between=(3, 4), silent_s=2.14, path="a - b"),
            "nothing happened for 2 s while waiting for x; rank 4 has not answered rank 3 for 2.1 s; their path: a - b",
            1,
        ),
        (errors.RunAborted("disk full"), "aborted: disk full", 1),
        (errors.TransferFailed("no answer", agent="a1", between=(0, 1)), "agent a1: no answer", 1),
        (
            errors.TransferFailed("no answer", agent="a1", between=(0, 1), path="h0 - h1"),
            "agent a1: no answer; their path: h0 - h1",
            1,
        ),
        (errors.RunInterrupted(), "aborted: interrupted by the user", 130),
        (errors.HostError("no timerfd"), "no timerfd", 3),
    ],
)
def test_one_line_and_an_exit_code(error: errors.EmulatorError, line: str, code: int) -> None:
    assert (str(error), error.exit_code) == (line, code)


@pytest.mark.parametrize(
    ("ranks", "text"),
    [([], "none"), ([5], "5"), ([1, 0], "0-1"), ([3, 1, 2, 9, 7, 8, 5], "1-3, 5, 7-9"), (range(1000), "0-999")],
)
def test_ranks_are_folded(ranks: list[int], text: str) -> None:
    assert errors.format_ranks(ranks) == text


@given(st.sets(st.integers(0, 60)))
def test_folded_ranks_name_every_rank_once(ranks: set[int]) -> None:
    spans = [part.partition("-") for part in errors.format_ranks(list(ranks)).split(", ") if part != "none"]
    assert [rank for low, _, high in spans for rank in range(int(low), int(high or low) + 1)] == sorted(ranks)


def test_errors_carry_their_facts_as_fields() -> None:
    lost = errors.AgentLost("a", ranks=[1], reason="gone")
    assert (lost.agent, lost.ranks, lost.reason) == ("a", (1,), "gone")
    timeout = errors.RunTimeout("x", seconds=3)
    assert (timeout.waiting_on, timeout.seconds) == ("x", 3)
    trace = errors.TraceError("p", path="f", offset=1, node=2, rank=3)
    assert (trace.problem, trace.path, trace.offset, trace.node, trace.rank) == ("p", "f", 1, 2, 3)
    assert errors.RunAborted("why").reason == "why"


def test_a_message_is_one_line_whatever_a_file_has() -> None:
    error = errors.TopologyError("there is no node 'h1'; there are \n, h0\u2028", path="a\nb.yaml")
    assert str(error) == "a b.yaml: there is no node 'h1'; there are  , h0"
