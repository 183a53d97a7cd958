"""The run as a machine without IO: what agents did goes in, what the controller must do comes out.

GATHERING ─ all agents joined ─► BINDING ─ all bound ─► PREPARING ─ all ready ─► PLAYING
                                                           ▲                        │ all done
                                                           └── next iteration ──────┤
                                                                                    └─ last one ─► FINISHING ─► OVER
Any phase ─ an agent failed or left before its farewell ─► OVER, with the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from emulator.errors import AgentLost, EmulatorError, RemoteProtocolError, RunError, TransferFailed


class Phase(Enum):
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
    """Everybody is ready: go."""

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
Instruction: TypeAlias = SendSetup | SendDirectory | PrepareIteration | StartIteration | FinishRun | EndRun
_Transition: TypeAlias = Callable[[], list[Instruction]]


class RunState:
    """The machine.

    Args:
        ranks_of: agent name → its ranks; exactly these agents may join.
        iterations: numbers to play in order, warm-up negative; at least one.
    """

    def __init__(self, ranks_of: Mapping[str, Sequence[int]], iterations: Sequence[int]) -> None:
        self._ranks_of = dict(ranks_of)
        self._iterations = list(iterations)
        self._joined: set[str] = set()
        self._done: set[str] = set()  # agents that did what the phase waits for
        self._places: dict[int, tuple[str, int]] = {}
        self._played = 0
        self.phase = Phase.GATHERING

    @property
    def iteration(self) -> int:
        """The iteration being prepared or played (the last one afterwards)."""
        return self._iterations[min(self._played, len(self._iterations) - 1)]

    @property
    def is_under_way(self) -> bool:
        """Whether agents play, or get ready for a later iteration: whoever is well then says something all the time."""
        return self.phase is Phase.PLAYING or (self.phase is Phase.PREPARING and self._played > 0)

    @property
    def missing_agents(self) -> list[str]:
        """Agents that the phase still waits for."""
        waited = self._joined if self.phase is Phase.GATHERING else self._done
        return sorted(set(self._ranks_of) - waited)

    def handle(self, stimulus: Stimulus) -> list[Instruction]:
        """Take in what happened; returns what to do, in order. After OVER nothing happens any more."""
        if self.phase is Phase.OVER:
            return []
        if stimulus.agent not in self._ranks_of:
            return self._end(RemoteProtocolError(f"agent {stimulus.agent} is not part of this run"))
        match stimulus:
            case AgentJoined(agent):
                return self._join(agent)
            case RanksBound(agent, places):
                return self._bound(agent, places)
            case AgentReady(agent):
                return self._all(agent, Phase.PREPARING, self._start)
            case AgentFinished(agent, iteration):
                if iteration != self.iteration:
                    return self._end(RemoteProtocolError(f"agent {agent} finished iteration {iteration} out of turn"))
                return self._all(agent, Phase.PLAYING, self._next)
            case AgentSaidFarewell(agent):
                return self._all(agent, Phase.FINISHING, self._end)
            case AgentAborted(agent, reason, (rank, peer)):
                return self._end(TransferFailed(reason, agent=agent, between=(rank, peer)))
            case AgentAborted(agent, reason, _):
                return self._end(RunError(f"agent {agent}: {reason}"))
            case AgentVanished(agent, reason):
                return self._vanished(agent, reason)

    def _join(self, agent: str) -> list[Instruction]:
        if self.phase is not Phase.GATHERING or agent in self._joined:
            return self._end(RemoteProtocolError(f"agent {agent} joined again while {self.phase.name.lower()}"))
        self._joined.add(agent)
        if self._joined != set(self._ranks_of):
            return []
        self.phase = Phase.BINDING
        return [SendSetup(name) for name in sorted(self._ranks_of)]

    def _bound(self, agent: str, places: Mapping[int, tuple[str, int]]) -> list[Instruction]:
        if set(places) != set(self._ranks_of[agent]):
            return self._end(RemoteProtocolError(f"agent {agent} bound other ranks than it was given"))
        self._places.update(places)
        return self._all(agent, Phase.BINDING, self._directory)

    def _all(self, agent: str, phase: Phase, then: _Transition) -> list[Instruction]:
        """Count the agent in; go on when all are there."""
        if self.phase is not phase or agent in self._done:
            return self._end(RemoteProtocolError(f"agent {agent} spoke out of turn while {self.phase.name.lower()}"))
        self._done.add(agent)
        if self._done != set(self._ranks_of):
            return []
        self._done.clear()
        return then()

    def _directory(self) -> list[Instruction]:
        self.phase = Phase.PREPARING
        return [SendDirectory(self._places), PrepareIteration(self.iteration)]

    def _start(self) -> list[Instruction]:
        self.phase = Phase.PLAYING
        return [StartIteration(self.iteration)]

    def _next(self) -> list[Instruction]:
        self._played += 1
        if self._played < len(self._iterations):
            self.phase = Phase.PREPARING
            return [PrepareIteration(self.iteration)]
        self.phase = Phase.FINISHING
        return [FinishRun()]

    def _vanished(self, agent: str, reason: str) -> list[Instruction]:
        if self.phase is Phase.FINISHING and agent in self._done:
            return []
        return self._end(AgentLost(agent, ranks=self._ranks_of[agent], reason=reason))

    def _end(self, error: EmulatorError | None = None) -> list[Instruction]:
        self.phase = Phase.OVER
        return [EndRun(error)]
