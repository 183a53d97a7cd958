"""The run as a machine: what agents say goes in, what to do comes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from emulator.controller.state import (
    AgentAborted,
    AgentFinished,
    AgentJoined,
    AgentReady,
    AgentSaidFarewell,
    AgentVanished,
    ContinueThrough,
    EndRun,
    FinishRun,
    Instruction,
    PrepareIteration,
    RanksBound,
    RunPhase,
    RunState,
    SendDirectory,
    SendSetup,
    StartIteration,
    Stimulus,
)
from emulator.errors import AgentLost, RemoteProtocolError, RunError, TransferFailed

RANKS = {"a": [0, 1], "b": [2]}
PLACES = {"a": {0: ("127.0.0.1", 5), 1: ("127.0.0.2", 6)}, "b": {2: ("127.0.0.3", 7)}}
PHASES = [phase for phase in RunPhase if phase is not RunPhase.OVER]


def machine(iterations: Sequence[int] = (-1, 0)) -> RunState:
    return RunState(RANKS, iterations)


def in_phase(phase: RunPhase) -> RunState:
    """A machine of two iterations that is in a phase of the first, nobody having done what it waits for."""
    state = machine()
    for stimulus in happy_path():
        if state.phase is phase:
            return state
        state.handle(stimulus)
    raise AssertionError(phase)


def happy_path() -> list[Stimulus]:
    both = ("a", "b")
    return [
        *(AgentJoined(name) for name in both),
        *(RanksBound(name, PLACES[name]) for name in both),
        *(
            said
            for iteration in (-1, 0)
            for said in (*(AgentReady(name) for name in both), *(AgentFinished(name, iteration) for name in both))
        ),
        *(AgentSaidFarewell(name) for name in both),
    ]


def test_the_happy_path() -> None:
    state = machine()
    heard = [(state.handle(stimulus), state.phase.name) for stimulus in happy_path()]
    directory = SendDirectory(PLACES["a"] | PLACES["b"])
    assert heard == [
        ([], "GATHERING"),
        ([SendSetup("a"), SendSetup("b")], "BINDING"),
        ([], "BINDING"),
        ([directory, PrepareIteration(-1)], "PREPARING"),
        ([], "PREPARING"),
        ([StartIteration(-1, -1)], "PLAYING"),
        ([], "PLAYING"),
        ([PrepareIteration(0)], "PREPARING"),
        ([], "PREPARING"),
        ([StartIteration(0, 0)], "PLAYING"),
        ([], "PLAYING"),
        ([FinishRun()], "FINISHING"),
        ([], "FINISHING"),
        ([EndRun()], "OVER"),
    ]
    assert state.iteration == 0


def started(state: RunState) -> list[Instruction]:
    """What the machine says when all are ready for the first time."""
    for stimulus in happy_path()[:5]:
        state.handle(stimulus)
    return state.handle(AgentReady("b"))


def test_agents_that_know_iterations_ahead_are_not_asked_between_them() -> None:
    state = RunState(RANKS, range(-1, 3), ahead=2)
    assert started(state) == [StartIteration(-1, 1)]
    assert state.handle(AgentFinished("a", -1)) == []
    assert state.handle(AgentFinished("a", 0)) == []
    assert (state.iteration, state.missing_agents) == (-1, ["b"])
    assert state.handle(AgentFinished("b", -1)) == [ContinueThrough(2)]
    assert [state.handle(AgentFinished("a", number)) for number in (1, 2)] == [[], []]
    assert [state.handle(AgentFinished("b", number)) for number in (0, 1)] == [[], []]
    assert (state.phase, state.iteration) == (RunPhase.PLAYING, 2)
    assert state.handle(AgentFinished("b", 2)) == [FinishRun()]


def test_the_next_iteration_is_asked_for_only_when_agents_must_know_of_it() -> None:
    asked: list[int] = []

    def iterations() -> Iterator[int]:
        for number in range(9):
            asked.append(number)
            yield number

    state = RunState(RANKS, iterations(), ahead=1)
    assert asked == [0]
    started(state)
    assert asked == [0, 1]
    state.handle(AgentFinished("a", 0))
    state.handle(AgentFinished("b", 0))
    assert asked == [0, 1, 2]


@pytest.mark.parametrize("iteration", [-2, 0, 3])
def test_an_iteration_that_agents_do_not_know_cannot_be_finished(iteration: int) -> None:
    state = RunState(RANKS, range(-1, 3), ahead=1)
    started(state)
    error = only_error(state.handle(AgentFinished("a", iteration)))
    assert str(error) == f"agent a finished iteration {iteration} out of turn"


def test_agents_may_come_in_any_order_and_are_counted() -> None:
    state = machine()
    assert state.missing_agents == ["a", "b"]
    state.handle(AgentJoined("b"))
    assert state.missing_agents == ["a"]
    state.handle(AgentJoined("a"))
    assert state.missing_agents == ["a", "b"]
    state.handle(RanksBound("b", PLACES["b"]))
    assert state.missing_agents == ["a"]


def out_of_turn() -> list[tuple[RunPhase, Stimulus]]:
    said: dict[RunPhase, Stimulus] = {
        RunPhase.GATHERING: AgentJoined("a"),
        RunPhase.BINDING: RanksBound("a", PLACES["a"]),
        RunPhase.PREPARING: AgentReady("a"),
        RunPhase.PLAYING: AgentFinished("a", -1),
        RunPhase.FINISHING: AgentSaidFarewell("a"),
    }
    return [(phase, stimulus) for phase in PHASES for turn, stimulus in said.items() if turn is not phase]


def only_error(instructions: list[Instruction]) -> Exception:
    (end,) = instructions
    assert isinstance(end, EndRun)
    assert end.error is not None
    return end.error


@pytest.mark.parametrize(("phase", "stimulus"), out_of_turn(), ids=str)
def test_who_speaks_out_of_turn_ends_the_run(phase: RunPhase, stimulus: Stimulus) -> None:
    state = in_phase(phase)
    error = only_error(state.handle(stimulus))
    assert isinstance(error, RemoteProtocolError)
    assert str(error).startswith("agent a ")
    assert state.phase is RunPhase.OVER


@pytest.mark.parametrize("phase", PHASES)
def test_who_says_it_twice_ends_the_run(phase: RunPhase) -> None:
    state = in_phase(phase)
    (turn,) = [stimulus for other, stimulus in out_of_turn() if other is not phase and _turn(stimulus) is phase][:1]
    iteration = AgentFinished("a", state.iteration) if phase is RunPhase.PLAYING else turn
    assert state.handle(iteration) == []
    assert isinstance(only_error(state.handle(iteration)), RemoteProtocolError)


def _turn(stimulus: Stimulus) -> RunPhase:
    turns = {
        AgentJoined: RunPhase.GATHERING,
        RanksBound: RunPhase.BINDING,
        AgentReady: RunPhase.PREPARING,
        AgentFinished: RunPhase.PLAYING,
        AgentSaidFarewell: RunPhase.FINISHING,
    }
    return turns[type(stimulus)]


@pytest.mark.parametrize("iteration", [0, 7])
def test_an_iteration_that_is_not_played_cannot_be_finished(iteration: int) -> None:
    error = only_error(in_phase(RunPhase.PLAYING).handle(AgentFinished("b", iteration)))
    assert str(error) == f"agent b finished iteration {iteration} out of turn"


@pytest.mark.parametrize("places", [{}, {0: ("h", 1)}, PLACES["a"] | PLACES["b"], PLACES["b"]])
def test_an_agent_binds_exactly_its_ranks(places: dict[int, tuple[str, int]]) -> None:
    error = only_error(in_phase(RunPhase.BINDING).handle(RanksBound("a", places)))
    assert str(error) == "agent a bound other ranks than it was given"


@pytest.mark.parametrize("phase", PHASES)
def test_a_vanished_agent_ends_the_run_with_its_name_and_ranks(phase: RunPhase) -> None:
    state = in_phase(phase)
    error = only_error(state.handle(AgentVanished("a", "signal 9")))
    assert isinstance(error, AgentLost)
    assert str(error) == "agent a is lost (signal 9); its ranks: 0-1"
    assert (error.ranks, error.exit_code) == ((0, 1), 1)


@pytest.mark.parametrize("phase", PHASES)
def test_an_agent_that_cannot_go_on_ends_the_run_with_its_reason(phase: RunPhase) -> None:
    error = only_error(in_phase(phase).handle(AgentAborted("b", "no more sockets", [2])))
    assert isinstance(error, RunError)
    assert str(error) == "agent b: no more sockets"


def test_who_said_farewell_may_go_and_the_others_may_not() -> None:
    state = in_phase(RunPhase.FINISHING)
    state.handle(AgentSaidFarewell("a"))
    assert state.handle(AgentVanished("a", "exited")) == []
    assert state.phase is RunPhase.FINISHING
    assert isinstance(only_error(state.handle(AgentVanished("b", "exited"))), AgentLost)


@pytest.mark.parametrize(
    "stimulus",
    [
        AgentJoined("x"),
        RanksBound("x", {}),
        AgentReady("x"),
        AgentFinished("x", -1),
        AgentSaidFarewell("x"),
        AgentAborted("x", "no", []),
        AgentVanished("x", "gone"),
    ],
    ids=lambda stimulus: type(stimulus).__name__,
)
def test_strangers_have_nothing_to_say(stimulus: Stimulus) -> None:
    assert str(only_error(machine().handle(stimulus))) == "agent x is not part of this run"


def test_after_the_end_nothing_happens() -> None:
    state = machine()
    state.handle(AgentVanished("a", "gone"))
    for stimulus in [*happy_path(), AgentVanished("b", "gone"), AgentAborted("b", "no", []), AgentJoined("x")]:
        assert state.handle(stimulus) == []
    assert state.phase is RunPhase.OVER


def test_two_ranks_that_cannot_reach_each_other_are_told_as_such() -> None:
    error = only_error(in_phase(RunPhase.PLAYING).handle(AgentAborted("b", "no answer after 7 retries", [2, 0])))
    assert isinstance(error, TransferFailed)
    assert (error.between, str(error)) == ((2, 0), "agent b: no answer after 7 retries")
