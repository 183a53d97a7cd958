"""The requester of a reliable connection: segments messages, keeps them until acknowledged, goes back N.

Everything about what is sent again, and when to give up, lives here.

Source: InfiniBand Architecture Specification, volume 1, section 9.7.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from emulator.roce.connection.messages import Message, PacketRun, Verb
from emulator.roce.connection.send_queue import LONGEST_TIMEOUT_FACTOR, NEVER, NOTHING, SendQueue
from emulator.roce.constants import ACK_REQUESTS_PER_TIMEOUT
from emulator.roce.pacing import SendWindow
from emulator.roce.tuning import PATIENCE_NS
from emulator.roce.wire.headers import CREDITS, NO_CREDIT_LIMIT, Syndrome
from emulator.roce.wire.psn import Psn, add, unwrapped, wrap

RNR_TIMERS_US: Final = (
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920,
    2_560, 3_840, 5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880,
    163_840, 245_760, 327_680, 491_520,
)  # fmt: skip
"""What the five timer bits of an RNR NAK mean, µs. Source: IBTA volume 1, table 45."""

_RNR_FOR_EVER: Final = 7
# Looking them up costs as much as a call.
_READ: Final = Verb.READ
_RNR: Final = int(Syndrome.RNR)
_TAKES_RECEIVE: Final = frozenset((Verb.SEND, Verb.SEND_IMM, Verb.WRITE_IMM))


@dataclass(slots=True, eq=False)
class Requester(SendQueue):
    """The sending end of a reliable connection."""

    _window: SendWindow = field(init=False)
    _completed: int = 0  # messages that are acknowledged
    _limit: int | None = None  # number of the last message, from 1, for which the peer has a receive request
    _asking: int = -1  # the packet after one that left without a credit
    _next: int = 0  # the next packet to send
    _ack_requested: int = 0  # packets up to the last one that requested an acknowledgement
    _requested_ns: int = 0  # when that one was sent
    _request_gap_ns: int = field(init=False)
    _opened_ns: int = 0  # when the window last opened without an acknowledgement
    _paused_until: int = 0
    _rnr_retries: int = 0
    _resent: int = -1  # the packet that was the oldest one when it was last sent again
    _read_gap: int = -1
    _probe: int = -1  # the packet whose acknowledgement is the next sample of the round-trip time
    _probe_ns: int = 0

    def __post_init__(self) -> None:
        settings = self.settings
        self._request_gap_ns = settings.timeout_ns // ACK_REQUESTS_PER_TIMEOUT
        self._window = SendWindow(settings.window_packets, settings.ack_interval, settings.smallest_run)
        if settings.initial_window_packets:
            self._window.start(settings.initial_window_packets)

    @property
    def backlog(self) -> int:
        """Packets posted and not yet sent, or to be sent again."""
        return self._posted - self._next

    @property
    def is_full(self) -> bool:
        """Nothing may go before an answer comes: the window is full, and no time will open it."""
        window = self._window
        return self._next - self._unacknowledged >= window.packets and not window.is_reduced

    @property
    def deadline_ns(self) -> int:
        """When to call `handle_timer`: an answer is overdue, or a pause is over; NEVER where nothing is awaited."""
        if self.failure is not None:
            return NEVER
        if self._paused_until:
            return self._paused_until
        return self._progress_ns + self._timeout_ns() if self._unacknowledged < self._sent else NEVER

    def start(self, message: Message, now: int) -> Psn | None:
        """Queue a SEND or WRITE of one packet that requests an acknowledgement, as sent now; returns its PSN.

        Returns None if it may not be sent at once, and does not queue it: `post` it.
        """
        first = self._next
        if self._unsent or first - self._unacknowledged >= self._window.packets:
            return None
        if self.failure is not None or now < self._paused_until or self._limit is not None:
            return None
        if first == self._unacknowledged:  # nothing was in flight: the timeout counts from this packet
            self._progress_ns = now
        if self._probe < 0:
            self._probe, self._probe_ns = first, now
        message.packets, message.first = 1, first
        self._messages.append(message)
        self._next = self._sent = self._posted = self._ack_requested = first + 1
        self.sent_packets += 1
        return add(self.initial_psn, first)

    def next_run(self, now: int, most: int) -> PacketRun | None:
        """At most `most` packets that may go now, all of one message; None: nothing may."""
        self.opens_ns = NEVER
        if not self._unsent or self.is_full or self.failure is not None or now < self._paused_until:
            return None
        count, taken = self._room(most)
        while not count and self._opens(now):
            count, taken = self._room(most)
        return self._take(self._unsent[0], count=count, taken=taken, now=now) if count else None

    def _room(self, most: int) -> tuple[int, int]:
        """How many packets of the next message may go, and how many PSNs they take."""
        message, window, under_way = self._unsent[0], self._window, self._next - self._unacknowledged
        left = message.first + message.packets - self._next
        if message.verb is _READ:  # one packet that takes the PSNs of its whole response, so it goes whole or waits
            is_held = under_way and under_way + left > window.packets
            return (0 if is_held or self._reads_outstanding() >= self.settings.max_rd_atomic else 1), left
        if self._limit is not None and self._next in (message.first, self._asking) and self._lacks_credit(message):
            if under_way:
                return 0, 0
            self._asking = self._next + 1  # one packet may ask whether there is a receive request by now
            return 1, 1
        if window.is_reduced:
            most = min(most, window.ack_interval)
        count = min(left, most, window.packets - under_way)
        if count < window.smallest_run and (count <= 0 or (count < min(left, most) and under_way)):
            return 0, 0  # the window opens further before long: many small runs would cost more
        return count, count

    def _lacks_credit(self, message: Message) -> bool:
        """Whether the peer has no receive request for the next message to send, as far as it has said."""
        assert self._limit is not None
        number = self._completed + len(self._messages) - len(self._unsent) + 1
        return number > self._limit and message.verb in _TAKES_RECEIVE

    def _reads_outstanding(self) -> int:
        """READs requested whose responses are not here in full."""
        messages = itertools.takewhile(lambda message: message.first < self._next, self._messages)
        return sum(message.verb is _READ for message in messages if message is not self._unsent[0])

    def _opens(self, now: int) -> bool:
        """Whether a full window opens because no answer came for a while."""
        if not self._window.is_reduced:
            return False
        self.opens_ns = max(self._progress_ns, self._opened_ns) + PATIENCE_NS
        if now < self.opens_ns:
            return False
        self.opens_ns, self._opened_ns = NEVER, now
        return self._window.open()

    def _take(self, message: Message, *, count: int, taken: int, now: int) -> PacketRun:
        first = self._next
        end = first + taken
        ends_message = end == message.first + message.packets
        is_again = first < self._sent
        if first == self._unacknowledged and not (is_again and first == self._resent):
            self._progress_ns = now  # but not again and again: a path that always loses this packet has to time out
            self._resent = first if is_again else -1
        # Where packets leave slowly, the interval alone would ask too rarely for the timeout.
        is_due = now - max(self._requested_ns, self._progress_ns) >= self._request_gap_ns
        ack_request = ends_message or is_due or end - self._ack_requested >= self._window.ack_interval
        if self._limit is not None and first == self._unacknowledged:
            ack_request = True  # it may be the one that asks for credits, and without an answer nothing would go on
        if ack_request:
            self._ack_requested, self._requested_ns = end, now
        if ends_message:
            self._unsent.popleft()
        if is_again:
            self.retransmits += min(end, self._sent) - first if message.verb is not _READ else 1
        elif self._probe < 0 and ack_request and message.verb is not _READ:
            self._probe, self._probe_ns = end - 1, now
        self._next = end
        if end > self._sent:
            self._sent = end
        self.sent_packets += count
        return PacketRun(message, wrap(self.initial_psn + first), first - message.first, count, ack_request, is_again)

    def acknowledge(self, psn: Psn, syndrome: int, now: int, msn: int | None = None) -> Sequence[Message]:
        """Take an ACK or NAK; returns the messages it completes, in order.

        `msn` is how many messages the peer has completed, from which its credits count; None: it sets no limit.
        """
        number = unwrapped(psn, self.initial_psn + self._unacknowledged) - self.initial_psn
        if not self._unacknowledged - 1 <= number < self._sent or self.failure is not None:
            self.refused_packets += number >= self._sent or number < self._unacknowledged - self.settings.reach_packets
            return NOTHING
        if syndrome < _RNR:
            if msn is not None:
                self._take_credits(syndrome, msn)
            return self._advance(number + 1, now)
        if number < self._unacknowledged:
            return NOTHING  # a refusal of what has been acknowledged since
        done = self._advance(number, now)  # a NAK acknowledges everything before its PSN
        if self._unacknowledged == number:
            self._refused(syndrome, now)
        return done

    def _take_credits(self, code: int, msn: int) -> None:
        completed = unwrapped(Psn(msn), self._completed)
        self._limit = None if code == NO_CREDIT_LIMIT else completed + CREDITS[code]

    def take_response(self, psn: Psn, count: int, now: int) -> Sequence[Message]:
        """Take READ responses: packets `psn` and the next `count` - 1; returns the messages this completes."""
        number = self._number(psn)
        if not self._unacknowledged <= number <= number + count <= self._sent or self.failure is not None:
            return NOTHING
        done = self._advance(number, now)
        message = self._messages[0]
        if self._unacknowledged != number or message.verb is not _READ:
            return done  # packets before it are missing: they have been requested again
        message.taken += min(count, message.first + message.packets - number)
        return [*done, *self._advance(message.first + message.taken, now)]

    def handle_timer(self, now: int) -> None:
        """To be called at `deadline_ns`: send everything again, or give up."""
        if now < self.deadline_ns:
            return
        if self._paused_until:
            self._paused_until = 0
            self._progress_ns = now
            return
        if self._timed_out(now, is_last=self._retries >= self.settings.retry_count):
            self._window.fell_silent()
            self._go_back(self._unacknowledged)

    def migrate(self, now: int) -> None:
        """Go on over another path, from the oldest packet without an acknowledgement: PSNs stay as they are.

        Nothing changes for a queue pair that the peer has refused.
        """
        if self.failure is not None and not self.is_exhausted:
            return
        self.failure, self.is_exhausted = None, False
        self._retries, self._paused_until, self._progress_ns = 0, 0, now
        self._window.fell_silent()
        self._go_back(self._unacknowledged)

    def _number(self, psn: Psn) -> int:
        return unwrapped(psn, self.initial_psn + self._unacknowledged) - self.initial_psn

    def _timeout_ns(self) -> int:
        return self.settings.timeout_ns * min(LONGEST_TIMEOUT_FACTOR, 1 << self._retries)

    def _advance(self, end: int, now: int) -> Sequence[Message]:
        """Everything before packet `end` is at the peer, but for READs whose responses are not here."""
        if end <= self._unacknowledged:
            return NOTHING
        done: list[Message] = []
        messages = self._messages
        reached = end
        while messages:
            message = messages[0]
            after = message.first + message.packets
            if message.verb is _READ and message.first + message.taken < min(end, after):
                reached = message.first + message.taken
                break
            if after > end:
                break
            done.append(messages.popleft())
        self._completed += len(done)
        self._reach(reached, now)
        if reached < end and self._read_gap != reached:  # an answer to a later packet shows that responses were lost
            self._read_gap = reached  # once: other packets in flight show the same
            self._go_back(reached)
        return done

    def _reach(self, reached: int, now: int) -> None:
        if reached <= self._unacknowledged:
            return
        if self._window.is_reduced:
            self._window.acknowledged(reached - self._unacknowledged)
        self._unacknowledged = reached
        self._retries = self._rnr_retries = 0
        self._progress_ns = now
        if 0 <= self._probe < reached:
            sample = now - self._probe_ns
            # Smoothed as in RFC 6298, section 2.
            self.rtt_ns = sample if self.rtt_ns is None else self.rtt_ns + (sample - self.rtt_ns) // 8
            self._probe = -1
        if self._next < reached:  # acknowledged although it was to be sent again
            self._next = reached
            while self._unsent and self._unsent[0].first + self._unsent[0].packets <= reached:
                self._unsent.popleft()

    def _refused(self, syndrome: int, now: int) -> None:
        if syndrome & 0xE0 == Syndrome.RNR:
            self.rnr_naks += 1
            self._rnr_retries += 1
            if self._rnr_retries > self.settings.rnr_retry_count != _RNR_FOR_EVER:
                self.failure = f"the peer was not ready to receive {self._rnr_retries} times in a row"
                return
            self._paused_until = now + RNR_TIMERS_US[syndrome & 0x1F] * 1_000
            self._go_back(self._unacknowledged)
        elif syndrome == Syndrome.SEQUENCE_ERROR:
            self.naks += 1
            if self._next > self._unacknowledged:  # else it is sent again next: one loss halves the window once
                self._window.lost()
                self._go_back(self._unacknowledged)
        else:
            self._refused_for_good(syndrome)

    def _go_back(self, number: int) -> None:
        """The next packet to send is `number` again."""
        if number >= self._next:
            return
        self._next = self._ack_requested = number
        self._probe = -1  # an answer could be to either (Karn)
        self._unsent = deque(message for message in self._messages if message.first + message.packets > number)
