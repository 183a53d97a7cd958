"""Automatic path migration of the queue pairs between two ranks that have two addresses each, without IO.

A queue pair whose retries are exhausted goes on over its alternate path: other addresses, the same queue pair numbers
and PSNs. The primary path is probed meanwhile; once probes in a row were answered, it is re-armed and traffic moves
back. All queue pairs between two ranks share one state: they lose a port together.

Source: InfiniBand Architecture Specification, volume 1, section 17.2.8 (the states); failback is not part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from emulator.roce.connection.send_queue import NEVER

PRIMARY: Final = 0
ALTERNATE: Final = 1
PROBE_INTERVAL_NS: Final = 200_000_000
"""Between two probes of the primary path."""
PROBES_TO_RETURN: Final = 3
"""Probes in a row that are answered, each before the next one leaves, before traffic moves back: at most four intervals
after the path works again, if none of them is lost or late."""
PEER_RETURNS_NS: Final = 10 * PROBE_INTERVAL_NS
"""How long a peer may still use the alternate path after this end has moved back: it asks at other times, and answers
to it can be late."""


class Migrated(NamedTuple):
    """Traffic moved to `path`: ALTERNATE as the primary one was silent, PRIMARY as it answered again.

    Attributes:
        qpn: of the queue pair at this end that found the primary path lost, and asked for it.
    """

    at_ns: int
    path: int
    qpn: int


@dataclass(slots=True, eq=False)
class PathState:
    """Which of two paths the queue pairs between two ranks send on.

    Attributes:
        path: PRIMARY or ALTERNATE.
        probe_ns: when to call `probe`; NEVER: on the primary path.
        moves: every migration, in order.
    """

    path: int = PRIMARY
    probe_ns: int = NEVER
    moves: list[Migrated] = field(default_factory=list)
    _qpn: int = 0  # that asks for the primary path
    _answered: int = 0  # probes in a row
    _is_heard: bool = False  # the last probe was answered
    _returned_ns: int = -PEER_RETURNS_NS

    def exhausted(self, now: int, qpn: int) -> bool:
        """A queue pair has exhausted its retries; whether all of them go on over the other path.

        From the alternate path to the primary one only if that has answered the last probe, or the one before while
        the last is under way. Else both are lost: False, and the peer counts as failed.
        """
        if self.path == ALTERNATE:
            if self._is_heard or self._answered:
                self._return(now)
                return True
            return False
        self._qpn = qpn
        self._move(ALTERNATE, now)
        self._answered, self._is_heard, self.probe_ns = 0, False, now + PROBE_INTERVAL_NS
        return True

    def follow(self, now: int, qpn: int) -> bool:
        """The peer sends on the alternate path; whether this end moves there as well, before it has lost anything."""
        return self.path == PRIMARY and now >= self._returned_ns + PEER_RETURNS_NS and self.exhausted(now, qpn)

    def probe(self, now: int) -> bool:
        """To be called at `probe_ns`: whether a probe is to leave now on the primary path; else traffic moves back."""
        self._answered = self._answered + 1 if self._is_heard else 0
        self._is_heard = False
        if self._answered >= PROBES_TO_RETURN:
            self._return(now)
            return False
        self.probe_ns = now + PROBE_INTERVAL_NS
        return True

    def heard(self) -> None:
        """An acknowledgement came on the primary path, which carries nothing but probes."""
        self._is_heard = self.path == ALTERNATE

    def _return(self, now: int) -> None:
        self._move(PRIMARY, now)
        self.probe_ns, self._returned_ns = NEVER, now

    def _move(self, path: int, now: int) -> None:
        self.path = path
        self.moves.append(Migrated(now, path, self._qpn))
