"""Every error that a user can see, as one tree. Each class carries fields and builds its one-line message here.

EmulatorError
  InputError          the input cannot be used                                  exit code 2
    TraceError          a trace: file, and offset or node
    TopologyError       a topology file: file, key path, line
    ResultError         a run folder: file
    EventError          an event of a run spec: its key
    PlanError           valid input that cannot be played
  ProtocolError       a protocol was violated                                   exit code 1
    LocalProtocolError    by Charkha: a bug
    RemoteProtocolError   by a peer: the packet is dropped and counted
  RunError            the run failed after it had begun                         exit code 1
    AgentLost           an agent went away
    TransferFailed      two ranks cannot reach each other
    RunTimeout          nothing happened for too long
    RunAborted          the run was stopped
      ControllerRefusal   the controller rejected this agent
      RunInterrupted      by the user                                           exit code 130
  HostError           the host lacks something; the message names the remedy    exit code 3
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from emulator import exit_codes

FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO)
"""Values of errno for a full or failing disk."""


class EmulatorError(Exception):
    """Root of all errors that a user can see. `str()` is one line: what is wrong, where, and what to do."""

    exit_code = exit_codes.FAILED

    def __str__(self) -> str:
        return " ".join(self._message().splitlines())  # names and values of files may contain line ends

    def _message(self) -> str:
        return super().__str__()


class InputError(EmulatorError):
    """The input cannot be used."""

    exit_code = exit_codes.BAD_INPUT


class TraceError(InputError):
    """A trace that cannot be read or played.

    Args:
        problem: what is wrong, and if useful what to do.
        path: the file or folder, as the user named it.
        offset: byte offset of the record in the uncompressed file.
        node: id of the node.
        rank: the rank, if the path does not identify it.
    """

    def __init__(
        self,
        problem: str,
        *,
        path: object = None,
        offset: int | None = None,
        node: int | None = None,
        rank: int | None = None,
    ) -> None:
        self.problem, self.path, self.offset, self.node, self.rank = problem, path, offset, node, rank
        super().__init__(problem)

    def _message(self) -> str:
        where = [str(self.path)] if self.path is not None else []
        where += [f"{name} {value}" for name, value in (("rank", self.rank), ("node", self.node)) if value is not None]
        if self.offset is not None:
            where.append(f"offset {self.offset}")
        return f"{', '.join(where)}: {self.problem}" if where else self.problem


class TopologyError(InputError):
    """A topology file that cannot be used: `path` is the file, `key` the path of the key in it, `line` from 1."""

    def __init__(self, problem: str, *, path: object = None, key: str | None = None, line: int | None = None) -> None:
        self.problem, self.path, self.key, self.line = problem, path, key, line
        super().__init__(problem)

    def _message(self) -> str:
        where = [] if self.path is None else [f"{self.path}:{self.line}" if self.line else str(self.path)]
        where += [self.key] if self.key else []
        return f"{', '.join(where)}: {self.problem}" if where else self.problem


class EventError(InputError):
    """An event of a run spec that cannot be used: its number from 0, and the key in it; "" for the whole event."""

    def __init__(self, problem: str, number: int, key: str = "") -> None:
        self.problem, self.number, self.key = problem, number, key
        super().__init__(f"events[{number}]{key and f'.{key}'}: {problem}")


class ResultError(InputError):
    """A run folder that cannot be read: `path` is the file."""

    def __init__(self, problem: str, *, path: object = None) -> None:
        self.problem, self.path = problem, path
        super().__init__(f"{path}: {problem}" if path is not None else problem)


class PlanError(InputError):
    """Valid input that cannot be played: ranks without hosts, an unknown algorithm."""


class ProtocolError(EmulatorError):
    """A protocol was violated."""


class LocalProtocolError(ProtocolError):
    """Charkha violated a protocol: a bug."""


class RemoteProtocolError(ProtocolError):
    """A peer violated a protocol."""


class RunError(EmulatorError):
    """The run failed after it had begun."""


class AgentLost(RunError):
    """An agent went away during a run.

    Args:
        ranks: that it played.
        storage: endpoints of storage hosts that it played, as `host:interface`.
    """

    def __init__(self, agent: str, *, ranks: Sequence[int], reason: str, storage: Sequence[str] = ()) -> None:
        self.agent, self.ranks, self.reason, self.storage = agent, tuple(ranks), reason, tuple(storage)
        stored = f"; its storage: {', '.join(storage)}" if storage else ""
        super().__init__(f"agent {agent} is lost ({reason}); its ranks: {format_ranks(ranks)}{stored}")


class TransferFailed(RunError):
    """Two ranks can no longer reach each other; `path` is the path between them, if the topology defines one."""

    def __init__(self, reason: str, *, agent: str, between: tuple[int, int], path: str | None = None) -> None:
        self.reason, self.agent, self.between, self.path = reason, agent, between, path
        super().__init__(f"agent {agent}: {reason}" + (f"; their path: {path}" if path is not None else ""))


class RunTimeout(RunError):
    """Nothing happened for too long.

    Args:
        waiting_on: what the run was waiting for.
        seconds: how long nothing happened.
        between: a rank and the peer that has not answered it for the longest time, if known.
        silent_s: seconds since the peer last answered.
        path: the path between them, if the topology defines one.
        silent: the peer in words, if it is no rank.
    """

    def __init__(
        self,
        waiting_on: str,
        *,
        seconds: float,
        between: tuple[int, int] | None = None,
        silent_s: float = 0,
        path: str | None = None,
        silent: str | None = None,
    ) -> None:
        self.waiting_on, self.seconds = waiting_on, seconds
        self.between, self.silent_s, self.path = between, silent_s, path
        line = f"nothing happened for {seconds:g} s while waiting for {waiting_on}"
        if between is not None:
            line += f"; {silent or f'rank {between[1]}'} has not answered rank {between[0]} for {silent_s:.1f} s"
        super().__init__(line + (f"; their path: {path}" if path is not None else ""))


class RunAborted(RunError):
    """The run was stopped."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"aborted: {reason}")


class ControllerRefusal(RunAborted):
    """The controller rejected this agent: wrong token, or another version."""


class RunInterrupted(RunAborted):
    """The user interrupted the run."""

    exit_code = exit_codes.INTERRUPTED

    def __init__(self) -> None:
        super().__init__("interrupted by the user")


class HostError(EmulatorError):
    """The host lacks something; the message names it and how to get it."""

    exit_code = exit_codes.HOST_LACKS


def format_ranks(ranks: Sequence[int]) -> str:
    """Format ranks, consecutive ones as a range: `0-3, 7`."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs) or "none"
