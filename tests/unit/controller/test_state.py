"""The run as a machine: what agents say goes in, what to do comes out."""

from collections.abc import Iterator, Sequence

import pytest

from emulator.control import conversation as control
from emulator.controller.state import EndRun, Instruction, RunPhase, RunState, Said, SendSetups
from emulator.errors import AgentLost, RemoteProtocolError, RunError, TransferFailed

RANKS = {"a": [0, 1], "b": [2]}
PLACES = {
    "a": {0: control.Address("127.0.0.1", 5), 1: control.Address("127.0.0.2", 6)},
    "b": {2: control.Address("127.0.0.3", 7)},
}
HELLO = control.Hello(4, 4, "a", 1, "h", "0", 0, b"")
FAREWELL = control.Farewell((), 0, 0)
PHASES = [phase for phase in RunPhase if phase is not RunPhase.OVER]


def machine(iterations: Sequence[int] = (-1, 0)) -> RunState:
    return RunState(RANKS, iterations)


def in_phase(phase: RunPhase) -> RunState:
    """A machine of two iterations that is in a phase of the first, nobody having done what it waits for."""
    state = machine()
    for agent, said in happy_path():
        if state.phase is phase:
            return state
        state.handle(agent, said)
    raise AssertionError(phase)


def done(iteration: int) -> control.IterationDone:
    return control.IterationDone(iteration, ())


def happy_path() -> list[tuple[str, Said]]:
    both = ("a", "b")
    return [
        *((name, HELLO) for name in both),
        *((name, control.Bound(PLACES[name])) for name in both),
        *((name, said) for iteration in (-1, 0) for said in (control.Ready(), done(iteration)) for name in both),
        *((name, FAREWELL) for name in both),
    ]


def test_the_happy_path() -> None:
    state = machine()
    heard = [(state.handle(agent, said), state.phase.name) for agent, said in happy_path()]
    directory = control.Directory(PLACES["a"] | PLACES["b"])
    assert heard == [
        ([], "GATHERING"),
        ([SendSetups()], "BINDING"),
        ([], "BINDING"),
        ([directory, control.Prepare(-1)], "PREPARING"),
        ([], "PREPARING"),
        ([control.Start(-1, 0, -1)], "PLAYING"),
        ([], "PLAYING"),
        ([control.Prepare(0)], "PREPARING"),
        ([], "PREPARING"),
        ([control.Start(0, 0, 0)], "PLAYING"),
        ([], "PLAYING"),
        ([control.Finish()], "FINISHING"),
        ([], "FINISHING"),
        ([EndRun()], "OVER"),
    ]
    assert state.iteration == 0


def started(state: RunState) -> list[Instruction]:
    """What the machine says when all are ready for the first time."""
    for agent, said in happy_path()[:5]:
        state.handle(agent, said)
    return state.handle("b", control.Ready())


def test_agents_that_prepare_themselves_are_ready_with_what_they_completed() -> None:
    state = RunState(RANKS, range(-1, 2), prepare_themselves=True)
    assert started(state) == [control.Start(-1, 0, -1)]
    for number in (0, 1):
        assert state.handle("b", done(number - 1)) == []
        assert (state.phase, state.missing_agents) == (RunPhase.PLAYING, ["a"])
        assert state.handle("a", done(number - 1)) == [control.Start(number, 0, number)]
    assert [state.handle(name, done(1)) for name in "ab"] == [[], [control.Finish()]]


def test_agents_that_know_iterations_ahead_are_not_asked_between_them() -> None:
    state = RunState(RANKS, range(-1, 3), ahead=2)
    assert started(state) == [control.Start(-1, 0, 1)]
    assert state.handle("a", done(-1)) == []
    assert state.handle("a", done(0)) == []
    assert (state.iteration, state.missing_agents) == (-1, ["b"])
    assert state.handle("b", done(-1)) == [control.Continue(2)]
    assert [state.handle("a", done(number)) for number in (1, 2)] == [[], []]
    assert [state.handle("b", done(number)) for number in (0, 1)] == [[], []]
    assert (state.phase, state.iteration) == (RunPhase.PLAYING, 2)
    assert state.handle("b", done(2)) == [control.Finish()]


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
    state.handle("a", done(0))
    state.handle("b", done(0))
    assert asked == [0, 1, 2]


@pytest.mark.parametrize("iteration", [-2, 0, 3])
def test_an_iteration_that_agents_do_not_know_cannot_be_finished(iteration: int) -> None:
    state = RunState(RANKS, range(-1, 3), ahead=1)
    started(state)
    error = only_error(state.handle("a", done(iteration)))
    assert str(error) == f"agent a finished iteration {iteration} out of turn"


def test_agents_may_come_in_any_order_and_are_counted() -> None:
    state = machine()
    assert state.missing_agents == ["a", "b"]
    state.handle("b", HELLO)
    assert state.missing_agents == ["a"]
    state.handle("a", HELLO)
    assert state.missing_agents == ["a", "b"]
    state.handle("b", control.Bound(PLACES["b"]))
    assert state.missing_agents == ["a"]


TURNS: dict[RunPhase, Said] = {
    RunPhase.GATHERING: HELLO,
    RunPhase.BINDING: control.Bound(PLACES["a"]),
    RunPhase.PREPARING: control.Ready(),
    RunPhase.PLAYING: done(-1),
    RunPhase.FINISHING: FAREWELL,
}
"""What a phase waits for, of agent a."""


def only_error(instructions: list[Instruction]) -> Exception:
    (end,) = instructions
    assert isinstance(end, EndRun)
    assert end.error is not None
    return end.error


@pytest.mark.parametrize(
    ("phase", "said"),
    [(phase, said) for phase in PHASES for turn, said in TURNS.items() if turn is not phase],
    ids=lambda one: type(one).__name__ if not isinstance(one, RunPhase) else one.name,
)
def test_who_speaks_out_of_turn_ends_the_run(phase: RunPhase, said: Said) -> None:
    state = in_phase(phase)
    error = only_error(state.handle("a", said))
    assert isinstance(error, RemoteProtocolError)
    assert str(error).startswith("agent a ")
    assert state.phase is RunPhase.OVER


@pytest.mark.parametrize("phase", PHASES)
def test_who_says_it_twice_ends_the_run(phase: RunPhase) -> None:
    state = in_phase(phase)
    assert state.handle("a", TURNS[phase]) == []
    assert isinstance(only_error(state.handle("a", TURNS[phase])), RemoteProtocolError)


@pytest.mark.parametrize("iteration", [0, 7])
def test_an_iteration_that_is_not_played_cannot_be_finished(iteration: int) -> None:
    error = only_error(in_phase(RunPhase.PLAYING).handle("b", done(iteration)))
    assert str(error) == f"agent b finished iteration {iteration} out of turn"


@pytest.mark.parametrize("places", [{}, {0: control.Address("h", 1)}, PLACES["a"] | PLACES["b"], PLACES["b"]])
def test_an_agent_binds_exactly_its_ranks(places: control.Places) -> None:
    error = only_error(in_phase(RunPhase.BINDING).handle("a", control.Bound(places)))
    assert str(error) == "agent a bound other ranks than it was given"


@pytest.mark.parametrize("phase", PHASES)
def test_a_vanished_agent_ends_the_run_with_its_name_and_ranks(phase: RunPhase) -> None:
    state = in_phase(phase)
    error = only_error(state.vanished("a", "signal 9"))
    assert isinstance(error, AgentLost)
    assert str(error) == "agent a is lost (signal 9); its ranks: 0-1"
    assert (error.ranks, error.exit_code) == ((0, 1), 1)


@pytest.mark.parametrize("phase", PHASES)
def test_an_agent_that_cannot_go_on_ends_the_run_with_its_reason(phase: RunPhase) -> None:
    error = only_error(in_phase(phase).handle("b", control.Abort("no more sockets", [2])))
    assert isinstance(error, RunError)
    assert str(error) == "agent b: no more sockets"


def test_who_said_farewell_may_go_and_the_others_may_not() -> None:
    state = in_phase(RunPhase.FINISHING)
    state.handle("a", FAREWELL)
    assert state.vanished("a", "exited") == []
    assert state.phase is RunPhase.FINISHING
    assert isinstance(only_error(state.vanished("b", "exited")), AgentLost)


@pytest.mark.parametrize("said", [*TURNS.values(), control.Abort("no")], ids=lambda said: type(said).__name__)
def test_strangers_have_nothing_to_say(said: Said) -> None:
    assert str(only_error(machine().handle("x", said))) == "agent x is not part of this run"


def test_after_the_end_nothing_happens() -> None:
    state = machine()
    state.vanished("a", "gone")
    for agent, said in [*happy_path(), ("b", control.Abort("no")), ("x", HELLO)]:
        assert state.handle(agent, said) == []
    assert state.vanished("b", "gone") == []
    assert state.phase is RunPhase.OVER


def test_two_ranks_that_cannot_reach_each_other_are_told_as_such() -> None:
    error = only_error(in_phase(RunPhase.PLAYING).handle("b", control.Abort("no answer after 7 retries", [2, 0])))
    assert isinstance(error, TransferFailed)
    assert (error.between, str(error)) == ((2, 0), "agent b: no answer after 7 retries")
