"""The run of a job as a machine without IO: what agents did goes in, what the controller must do comes out.

GATHERING ─ all agents joined ─► BINDING ─ all bound ─► PREPARING ─ all ready ─► PLAYING
                                                           ▲                        │ all done
                                                           └── next iteration ──────┤
                                                                                    └─ last one ─► FINISHING ─► OVER
Any phase ─ an agent failed or left before its farewell ─► OVER, with the error.

With the pace `continuous` it stays PLAYING from the first iteration to the last: agents know some iterations ahead,
and begin them without being told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from typing import TypeAlias

from emulator.errors import AgentLost, EmulatorError, RemoteProtocolError, RunError, TransferFailed


class RunPhase(Enum):
    """Where the run is."""

    GATHERING = auto()
    BINDING = auto()
    PREPARING = auto()
    PLAYING = auto()
    FINISHING = auto()
    OVER = auto()


@dataclass(frozen=True, slots=True)
class AgentJoined:
    """An agent presented itself and was let in."""

    agent: str


@dataclass(frozen=True, slots=True)
class RanksBound:
    """The agent's ranks listen at these places."""

    agent: str
    places: Mapping[int, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class AgentReady:
    """All ranks of the agent hold the first nodes of the iteration being prepared."""

    agent: str


@dataclass(frozen=True, slots=True)
class AgentFinished:
    """All ranks of the agent completed the iteration."""

    agent: str
    iteration: int


@dataclass(frozen=True, slots=True)
class AgentSaidFarewell:
    """The agent reported its counters and is leaving."""

    agent: str


@dataclass(frozen=True, slots=True)
class AgentAborted:
    """The agent cannot go on; two ranks are those that cannot reach each other."""

    agent: str
    reason: str
    ranks: Sequence[int]


@dataclass(frozen=True, slots=True)
class AgentVanished:
    """The agent's stream or process ended."""

    agent: str
    reason: str


@dataclass(frozen=True, slots=True)
class SendSetup:
    """Tell the agent its ranks."""

    agent: str


@dataclass(frozen=True, slots=True)
class SendDirectory:
    """Tell every agent where all ranks listen."""

    places: Mapping[int, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class PrepareIteration:
    """Have every agent fill its windows, and stream to those that need it."""

    iteration: int


@dataclass(frozen=True, slots=True)
class StartIteration:
    """Everybody is ready: go; `through` is the last iteration that agents begin without being told."""

    iteration: int
    through: int


@dataclass(frozen=True, slots=True)
class ContinueThrough:
    """Agents begin all iterations up to this one without being told."""

    iteration: int


@dataclass(frozen=True, slots=True)
class FinishRun:
    """All iterations are played: collect the counters."""


@dataclass(frozen=True, slots=True)
class EndRun:
    """Nothing is left to do; `error` says why where the run failed."""

    error: EmulatorError | None = None


Stimulus: TypeAlias = (
    AgentJoined | RanksBound | AgentReady | AgentFinished | AgentSaidFarewell | AgentAborted | AgentVanished
)
Instruction: TypeAlias = (
    SendSetup | SendDirectory | PrepareIteration | StartIteration | ContinueThrough | FinishRun | EndRun
)
_Transition: TypeAlias = Callable[[], list[Instruction]]


class RunState:
    """The machine.

    Args:
        ranks_of: agent name → its ranks; exactly these agents may join.
        iterations: numbers to play in order, warm-up negative; at least one. The next one is asked for when agents
            must know of it.
        ahead: iterations that agents know of besides the one that not all have completed; 0: none, so that all begin
            each one together.
    """

    def __init__(self, ranks_of: Mapping[str, Sequence[int]], iterations: Iterable[int], *, ahead: int = 0) -> None:
        self._ranks_of = dict(ranks_of)
        self._coming = iter(iterations)
        self._ahead = ahead
        self._known = [next(self._coming)]  # to agents; those before `_played` are complete
        self._played = 0
        self._played_by = dict.fromkeys(self._ranks_of, 0)
        self._joined: set[str] = set()
        self._done: set[str] = set()  # agents that did what the phase waits for
        self._places: dict[int, tuple[str, int]] = {}
        self.phase = RunPhase.GATHERING

    @property
    def iteration(self) -> int:
        """The first iteration that is not complete (the last one afterwards)."""
        return self._known[min(self._played, len(self._known) - 1)]

    @property
    def missing_agents(self) -> list[str]:
        """Agents that the phase still waits for."""
        if self.phase is RunPhase.PLAYING:
            return sorted(name for name, played in self._played_by.items() if played == self._played)
        waited = self._joined if self.phase is RunPhase.GATHERING else self._done
        return sorted(set(self._ranks_of) - waited)

    def handle(self, stimulus: Stimulus) -> list[Instruction]:
        """Take in what happened; returns what to do, in order. After OVER nothing happens any more."""
        if self.phase is RunPhase.OVER:
            return []
        if stimulus.agent not in self._ranks_of:
            return self._end(RemoteProtocolError(f"agent {stimulus.agent} is not part of this run"))
        match stimulus:
            case AgentJoined(agent):
                return self._join(agent)
            case RanksBound(agent, places):
                return self._bound(agent, places)
            case AgentReady(agent):
                return self._all(agent, RunPhase.PREPARING, self._start)
            case AgentFinished(agent, iteration):
                return self._finished(agent, iteration)
            case AgentSaidFarewell(agent):
                return self._all(agent, RunPhase.FINISHING, self._end)
            case AgentAborted(agent, reason, (rank, peer)):
                return self._end(TransferFailed(reason, agent=agent, between=(rank, peer)))
            case AgentAborted(agent, reason, _):
                return self._end(RunError(f"agent {agent}: {reason}"))
            case AgentVanished(agent, reason):
                return self._vanished(agent, reason)

    def _join(self, agent: str) -> list[Instruction]:
        if self.phase is not RunPhase.GATHERING or agent in self._joined:
            return self._end(RemoteProtocolError(f"agent {agent} joined again while {self.phase.name.lower()}"))
        self._joined.add(agent)
        if self._joined != set(self._ranks_of):
            return []
        self.phase = RunPhase.BINDING
        return [SendSetup(name) for name in sorted(self._ranks_of)]

    def _bound(self, agent: str, places: Mapping[int, tuple[str, int]]) -> list[Instruction]:
        if set(places) != set(self._ranks_of[agent]):
            return self._end(RemoteProtocolError(f"agent {agent} bound other ranks than it was given"))
        self._places.update(places)
        return self._all(agent, RunPhase.BINDING, self._directory)

    def _all(self, agent: str, phase: RunPhase, then: _Transition) -> list[Instruction]:
        """Count the agent in; go on when all are there."""
        if self.phase is not phase or agent in self._done:
            return self._end(RemoteProtocolError(f"agent {agent} spoke out of turn while {self.phase.name.lower()}"))
        self._done.add(agent)
        if self._done != set(self._ranks_of):
            return []
        self._done.clear()
        return then()

    def _directory(self) -> list[Instruction]:
        self.phase = RunPhase.PREPARING
        return [SendDirectory(self._places), PrepareIteration(self.iteration)]

    def _start(self) -> list[Instruction]:
        self.phase = RunPhase.PLAYING
        self._known += islice(self._coming, self._ahead)
        return [StartIteration(self.iteration, self._known[-1])]

    def _finished(self, agent: str, iteration: int) -> list[Instruction]:
        own = self._played_by[agent]
        if self.phase is not RunPhase.PLAYING or own >= len(self._known) or iteration != self._known[own]:
            return self._end(RemoteProtocolError(f"agent {agent} finished iteration {iteration} out of turn"))
        self._played_by[agent] += 1
        if min(self._played_by.values()) == self._played:
            return []
        self._played += 1
        return self._next()

    def _next(self) -> list[Instruction]:
        """All have completed one more iteration."""
        following = next(self._coming, None)
        if following is not None:
            self._known.append(following)
            if self._ahead:
                return [ContinueThrough(following)]
        if self._played == len(self._known):
            self.phase = RunPhase.FINISHING
            return [FinishRun()]
        if self._ahead:
            return []
        self.phase = RunPhase.PREPARING
        return [PrepareIteration(self.iteration)]

    def _vanished(self, agent: str, reason: str) -> list[Instruction]:
        if self.phase is RunPhase.FINISHING and agent in self._done:
            return []
        return self._end(AgentLost(agent, ranks=self._ranks_of[agent], reason=reason))

    def _end(self, error: EmulatorError | None = None) -> list[Instruction]:
        self.phase = RunPhase.OVER
        return [EndRun(error)]
