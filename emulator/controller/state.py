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

from emulator.control import conversation as control
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
class SendSetups:
    """Tell every agent its ranks."""


@dataclass(frozen=True, slots=True)
class EndRun:
    """Nothing is left to do; `error` says why where the run failed."""

    error: EmulatorError | None = None


Said: TypeAlias = (
    control.Hello | control.Bound | control.Ready | control.IterationDone | control.Farewell | control.Abort
)
Instruction: TypeAlias = (
    SendSetups | control.Directory | control.Prepare | control.Start | control.Continue | control.Finish | EndRun
)
"""What of the conversation is in it is for all agents; the moment of a Start is up to whoever sends it."""
_Transition: TypeAlias = Callable[[], list[Instruction]]


class RunState:
    """The machine.

    Args:
        ranks_of: agent name → its ranks; exactly these agents may join.
        iterations: numbers to play in order, warm-up negative; at least one. The next one is asked for when agents
            must know of it.
        ahead: iterations that agents know of besides the one that not all have completed; 0: none, so that all begin
            each one together.
        prepare_themselves: agents that have completed an iteration are ready for the next one.
    """

    def __init__(
        self,
        ranks_of: Mapping[str, Sequence[int]],
        iterations: Iterable[int],
        *,
        ahead: int = 0,
        prepare_themselves: bool = False,
    ) -> None:
        self._ranks_of = dict(ranks_of)
        self._coming = iter(iterations)
        self._ahead, self._prepare_themselves = ahead, prepare_themselves
        self._known = [next(self._coming)]  # to agents; those before `_played` are complete
        self._played = 0
        self._played_by = dict.fromkeys(self._ranks_of, 0)
        self._joined: set[str] = set()
        self._done: set[str] = set()  # agents that did what the phase waits for
        self._places: dict[int, control.Address] = {}
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

    def handle(self, agent: str, said: Said) -> list[Instruction]:
        """Take in what an agent said; returns what to do, in order. After OVER nothing happens any more."""
        if self.phase is RunPhase.OVER:
            return []
        if agent not in self._ranks_of:
            return self._end(RemoteProtocolError(f"agent {agent} is not part of this run"))
        match said:
            case control.Hello():
                return self._join(agent)
            case control.Bound(places):
                return self._bound(agent, places)
            case control.Ready():
                return self._all(agent, RunPhase.PREPARING, self._start)
            case control.IterationDone(iteration):
                return self._finished(agent, iteration)
            case control.Farewell():
                return self._all(agent, RunPhase.FINISHING, self._end)
            case control.Abort(reason, (rank, peer)):
                return self._end(TransferFailed(reason, agent=agent, between=(rank, peer)))
            case control.Abort(reason):
                return self._end(RunError(f"agent {agent}: {reason}"))

    def vanished(self, agent: str, reason: str) -> list[Instruction]:
        """The agent's stream or process ended; returns what to do as `handle` does."""
        if self.phase is RunPhase.OVER or (self.phase is RunPhase.FINISHING and agent in self._done):
            return []
        return self._end(AgentLost(agent, ranks=self._ranks_of[agent], reason=reason))

    def _join(self, agent: str) -> list[Instruction]:
        if self.phase is not RunPhase.GATHERING or agent in self._joined:
            return self._end(RemoteProtocolError(f"agent {agent} joined again while {self.phase.name.lower()}"))
        self._joined.add(agent)
        if self._joined != set(self._ranks_of):
            return []
        self.phase = RunPhase.BINDING
        return [SendSetups()]

    def _bound(self, agent: str, places: control.Places) -> list[Instruction]:
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
        return [control.Directory(self._places), control.Prepare(self.iteration)]

    def _start(self) -> list[Instruction]:
        self.phase = RunPhase.PLAYING
        self._known += islice(self._coming, self._ahead)
        return [control.Start(self.iteration, at_ns=0, through=self._known[-1])]

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
                return [control.Continue(following)]
        if self._played == len(self._known):
            self.phase = RunPhase.FINISHING
            return [control.Finish()]
        if self._ahead:
            return []
        if self._prepare_themselves:
            return self._start()
        self.phase = RunPhase.PREPARING
        return [control.Prepare(self.iteration)]

    def _end(self, error: EmulatorError | None = None) -> list[Instruction]:
        self.phase = RunPhase.OVER
        return [EndRun(error)]
