"""Whatever agents say, in whatever order: the run never breaks, and ends at most once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.control import conversation as control
from emulator.controller.state import EndRun, RunPhase, RunState, Said
from tests.support.full import examples

RANKS = {"a": (0,), "b": (1, 2)}
PLACES = {name: {rank: control.Address("127.0.0.1", 1000 + rank) for rank in ranks} for name, ranks in RANKS.items()}
GONE = None
"""In place of what an agent says: it vanishes."""
said = st.one_of(
    st.just(control.Hello(4, 4, "a", 1, "h", "0", 0, b"")),
    st.builds(control.Bound, st.sampled_from([PLACES["a"], PLACES["b"], {}])),
    st.just(control.Ready()),
    st.builds(control.IterationDone, st.integers(-2, 2), st.just(())),
    st.just(control.Farewell((), 0, 0)),
    st.just(control.Abort("no")),
)
events = st.one_of(
    st.tuples(st.sampled_from(["a", "b", "x"]), said), st.tuples(st.sampled_from(["a", "b"]), st.just(GONE))
)


def play(state: RunState, heard: list[tuple[str, Said | None]]) -> list[object]:
    instructions: list[object] = []
    for agent, said in heard:
        was_over = state.phase is RunPhase.OVER
        told = state.vanished(agent, "gone") if said is GONE else state.handle(agent, said)
        assert not (was_over and told)
        instructions += told
        assert (state.phase is RunPhase.OVER) == any(isinstance(one, EndRun) for one in instructions)
        assert set(state.missing_agents) <= set(RANKS)
        assert state.iteration in range(-1, 1)
    return instructions


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(events, max_size=30), st.integers(0, 2))
def test_any_sequence_is_taken_and_ends_at_most_once(heard: list[tuple[str, Said | None]], ahead: int) -> None:
    instructions = play(RunState(RANKS, [-1, 0], ahead=ahead), heard)
    ends = [one for one in instructions if isinstance(one, EndRun)]
    assert len(ends) <= 1
    assert not ends or instructions[-1] is ends[0]
