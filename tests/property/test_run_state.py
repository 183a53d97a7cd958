"""Whatever agents say, in whatever order: the run never breaks, and ends at most once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.controller.state import (
    AgentAborted,
    AgentFinished,
    AgentJoined,
    AgentReady,
    AgentSaidFarewell,
    AgentVanished,
    EndRun,
    RanksBound,
    RunPhase,
    RunState,
    Stimulus,
)
from tests.support.full import examples

RANKS = {"a": (0,), "b": (1, 2)}
PLACES = {name: {rank: ("127.0.0.1", 1000 + rank) for rank in ranks} for name, ranks in RANKS.items()}
agents = st.sampled_from(["a", "b", "x"])
stimuli: st.SearchStrategy[Stimulus] = st.one_of(
    st.builds(AgentJoined, agents),
    st.builds(RanksBound, agents, st.sampled_from([PLACES["a"], PLACES["b"], {}])),
    st.builds(AgentReady, agents),
    st.builds(AgentFinished, agents, st.integers(-2, 2)),
    st.builds(AgentSaidFarewell, agents),
    st.builds(AgentAborted, agents, st.just("no"), st.just(())),
    st.builds(AgentVanished, agents, st.just("gone")),
)


def play(state: RunState, said: list[Stimulus]) -> list[object]:
    instructions: list[object] = []
    for stimulus in said:
        was_over = state.phase is RunPhase.OVER
        told = state.handle(stimulus)
        assert not (was_over and told)
        instructions += told
        assert (state.phase is RunPhase.OVER) == any(isinstance(one, EndRun) for one in instructions)
        assert set(state.missing_agents) <= set(RANKS)
        assert state.iteration in range(-1, 1)
    return instructions


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(stimuli, max_size=30), st.integers(0, 2))
def test_any_sequence_is_taken_and_ends_at_most_once(said: list[Stimulus], ahead: int) -> None:
    instructions = play(RunState(RANKS, [-1, 0], ahead=ahead), said)
    ends = [one for one in instructions if isinstance(one, EndRun)]
    assert len(ends) <= 1
    assert not ends or instructions[-1] is ends[0]
