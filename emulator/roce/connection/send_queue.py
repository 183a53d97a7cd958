"""What both requesters have in common: the messages posted, which of their packets are sent and acknowledged, and
how long the peer has been silent.

Packets are numbered from 0 without wrapping inside; PSNs appear only where packets come and go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from emulator.roce.connection.messages import ConnectionSettings, Message, PacketRun, packets_of
from emulator.roce.wire.headers import Syndrome
from emulator.roce.wire.psn import ZERO_PSN, Psn, add
from emulator.units import format_duration

NEVER: Final = 1 << 62
LONGEST_TIMEOUT_FACTOR: Final = 4
"""The specification lets a timeout take one to four times its nominal value: repeated ones are stretched so far."""
NOTHING: tuple[Message, ...] = ()
REFUSALS: dict[int, str] = {
    Syndrome.INVALID_REQUEST: "an invalid request",
    Syndrome.REMOTE_ACCESS: "a key or range it does not allow",
    Syndrome.REMOTE_OPERATIONAL: "an error of its own",
}


@dataclass(slots=True, eq=False)
class SendQueue:
    """The send queue of a queue pair; `initial_psn`: PSN of the first packet. Requesters say what goes when."""

    settings: ConnectionSettings
    initial_psn: Psn = ZERO_PSN
    opens_ns: int = NEVER
    """When to call `next_run` again after a full window refused; NEVER: when an answer comes."""
    failure: str | None = None
    is_exhausted: bool = False
    """It failed because retries got no answer: another path may still lead to the peer."""
    rtt_ns: int | None = None
    naks: int = 0
    rnr_naks: int = 0
    timeouts: int = 0
    retransmits: int = 0
    sent_packets: int = 0
    refused_packets: int = 0
    """Answers to what was never sent."""
    _messages: deque[Message] = field(default_factory=deque)  # not yet acknowledged
    _unsent: deque[Message] = field(default_factory=deque)  # of those, the ones with packets to send
    _posted: int = 0  # packets of all messages ever posted
    _sent: int = 0  # packets sent at least once
    _unacknowledged: int = 0  # the oldest packet without an acknowledgement
    _progress_ns: int = 0
    _silent_ns: int = 0  # when the peer last answered, before the first of the timeouts in a row
    _unmoved: tuple[int, int] = (0, 0)  # _progress_ns as `defer_timeout` left it, and what it was before
    _retries: int = 0

    def start(self, message: Message, now: int) -> Psn | None:
        """Queue a SEND or WRITE of one packet that requests an acknowledgement, as sent now; returns its PSN.

        Returns None if it may not be sent at once, and does not queue it: `post` it.
        """
        return None

    def next_run(self, now: int, most: int) -> PacketRun | None:
        """At most `most` packets that may go now, all of one message; None: nothing may."""
        raise NotImplementedError

    def handle_timer(self, now: int) -> None:
        """To be called at `deadline_ns`: send again, or give up."""
        raise NotImplementedError

    def acknowledge(self, psn: Psn, syndrome: int, now: int, msn: int | None = None) -> Sequence[Message]:
        """Take an ACK or NAK; returns the messages it completes, in order.

        `msn` is how many messages the peer has completed, from which its credits count; None: it sets no limit.
        """
        self.refused_packets += 1
        return NOTHING

    def take_response(self, psn: Psn, count: int, now: int) -> Sequence[Message]:
        """Take READ responses: packets `psn` and the next `count` - 1; returns the messages this completes."""
        return NOTHING

    @property
    def backlog(self) -> int:
        """Packets posted and not yet sent, or to be sent again."""
        raise NotImplementedError

    @property
    def is_full(self) -> bool:
        """Nothing may go before an answer comes."""
        raise NotImplementedError

    @property
    def deadline_ns(self) -> int:
        """When to call `handle_timer`; NEVER where nothing is awaited."""
        raise NotImplementedError

    @property
    def oldest_psn(self) -> Psn:
        """PSN of the oldest packet without an acknowledgement or response, or of the next one to be sent."""
        return add(self.initial_psn, self._unacknowledged)

    @property
    def in_flight(self) -> int:
        """Packets sent and not acknowledged."""
        return self._sent - self._unacknowledged

    @property
    def unacknowledged_bytes(self) -> int:
        """Payload of the messages posted, less that of packets acknowledged."""
        if not self._messages:
            return 0
        first = self._messages[0]
        done = (self._unacknowledged - first.first) * self.settings.path_mtu
        return sum(message.size for message in self._messages) - done

    @property
    def silent_since_ns(self) -> int:
        """Since when nothing was acknowledged of what is in flight."""
        return self._silent_ns if self._retries else self._answered_ns()

    @property
    def is_unanswered(self) -> bool:
        """Nothing was acknowledged since the last timeout."""
        return self._retries > 0

    @property
    def is_idle(self) -> bool:
        """Everything posted is acknowledged."""
        return self._unacknowledged == self._posted

    def post(self, message: Message) -> None:
        """Queue a message."""
        message.packets = packets_of(message.size, self.settings.path_mtu)
        message.first = self._posted
        self._posted += message.packets
        self._messages.append(message)
        self._unsent.append(message)

    def defer_timeout(self, duration_ns: int, now: int) -> None:
        """The owner could not look for answers for so long, up to `now`: that does not count towards the timeout."""
        answered = self._answered_ns()
        self._progress_ns = min(now, self._progress_ns + duration_ns)
        self._unmoved = self._progress_ns, answered

    def _timed_out(self, now: int, *, is_last: bool) -> bool:
        """Count a timeout; returns whether to send again: after the last one the peer has failed."""
        self.timeouts += 1
        if is_last:
            self.is_exhausted = True
            count, timeout = self.settings.retry_count, format_duration(self.settings.timeout_ns)
            self.failure = f"no answer after {count} retries (timeout {timeout}, stretched when repeated)"
            return False
        if not self._retries:
            self._silent_ns = self._answered_ns()
        self._retries += 1
        self._progress_ns = now
        return True

    def _refused_for_good(self, syndrome: int) -> None:
        self.failure = f"the peer refused with {REFUSALS.get(syndrome, f'syndrome {syndrome:#x}')}"

    def _answered_ns(self) -> int:
        """When there was last progress, without what `defer_timeout` has added since."""
        moved, answered = self._unmoved
        return answered if self._progress_ns == moved else self._progress_ns
