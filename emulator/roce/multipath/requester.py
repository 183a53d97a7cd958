"""The requester of the multipath profile: deals packets to paths, and sends again what is missing, and nothing else.

Each packet has a state of its own, because packets overtake each other on different paths.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.roce.connection.messages import Message, PacketRun
from emulator.roce.connection.send_queue import LONGEST_TIMEOUT_FACTOR, NEVER, NOTHING, SendQueue
from emulator.roce.multipath.paths import LOSSES_TO_RETIRE, REORDER_PACKETS, Health, PathColumns
from emulator.roce.multipath.wire import MOST_AHEAD, Reason, SelectiveAck
from emulator.roce.wire.headers import Syndrome
from emulator.roce.wire.psn import Psn, unwrapped, wrap

SPAN_WINDOWS = 8
"""Packets that arrived out of order leave the window: while a gap is filled, so many windows may pass it."""

_UNSENT, _FLYING, _LOST, _HERE = range(4)


class Burst(NamedTuple):
    """Packets of a message that leave on one path, by their place in the message; none: a probe with that PSN."""

    path: int
    packets: Sequence[int]
    psn: Psn = Psn(0)


class Spray(PacketRun, frozen=True, gc=False):
    """Packets of one message that may go now, over several paths; `psn` is that of the message's first packet."""

    bursts: Sequence[Burst] = ()

    @property
    def ends_message(self) -> bool:
        """Whether the message's last packet is among them."""
        last = self.message.packets - 1
        return any(burst.packets and burst.packets[-1] == last for burst in self.bursts)


@dataclass(slots=True, eq=False)
class MultipathRequester(SendQueue):
    """The sending end of a queue pair that sends on several paths.

    Attributes:
        health: which paths carry packets.
        batch_packets: packets in a row that take one path; 1: the next packet takes the next path.
        paths: what is known of each.
    """

    health: Health = field(default_factory=lambda: Health(1))
    batch_packets: int = 1
    paths: PathColumns = field(init=False)
    _span: int = field(init=False)  # packets from the oldest unacknowledged one to the newest
    _state: npt.NDArray[np.uint8] = field(init=False)  # by packet number modulo the length, as all of these:
    _path: npt.NDArray[np.int64] = field(init=False)
    _place: npt.NDArray[np.int64] = field(init=False)  # number of the packet on its path
    _sent_ns: npt.NDArray[np.int64] = field(init=False)
    _is_again: npt.NDArray[np.bool_] = field(init=False)
    _lost: deque[int] = field(default_factory=deque)  # packets to be sent again
    _turn: int = 0  # the path whose turn it is
    _answered_at_ns: int = 0  # when the newest packet was sent that is acknowledged
    _waited_ns: int = 0  # timeouts in a row
    _probes: dict[int, int] = field(default_factory=dict)  # PSN of a probe → path

    def __post_init__(self) -> None:
        window = min(self.settings.window_packets, MOST_AHEAD)
        self._span = min(SPAN_WINDOWS * window, MOST_AHEAD)
        self.paths = PathColumns(self.health, most=window)
        size = 1 << (self._span - 1).bit_length()
        self._state, self._is_again = np.zeros(size, np.uint8), np.zeros(size, np.bool_)
        self._path, self._place, self._sent_ns = (np.zeros(size, np.int64) for _ in range(3))

    @property
    def backlog(self) -> int:
        """Packets posted and not yet sent, or to be sent again."""
        return self._posted - self._sent + len(self._lost)

    @property
    def is_full(self) -> bool:
        """Nothing may go before an answer comes."""
        has_packet = self._lost or self._sent - self._unacknowledged < self._span
        return not has_packet or self._room_in_window() <= 0 or not self._open_paths()

    def _room_in_window(self) -> int:
        """Packets that may go by the window of the queue pair, whatever path they take."""
        return self.settings.window_packets - int(self.paths.in_flight.sum())

    def _open_paths(self) -> dict[int, int]:
        """Paths in use that may carry more: how many packets each."""
        rooms = {path: self.paths.room(path) for path in self.health.in_use}
        return {path: room for path, room in rooms.items() if room > 0}

    @property
    def deadline_ns(self) -> int:
        """When to call `handle_timer`; NEVER where nothing is awaited."""
        if self.failure is not None or self._unacknowledged == self._sent:
            return NEVER
        return self._progress_ns + self._patience_ns()

    def _patience_ns(self) -> int:
        longest = LONGEST_TIMEOUT_FACTOR * self.settings.timeout_ns
        return min(self.paths.silence_ns() << min(self._retries, 30), longest)

    # Sending.

    def next_run(self, now: int, most: int) -> Spray | None:
        """At most `most` packets that may go now, all of one message; None: nothing may."""
        if self.failure is not None or not (self._lost or self._unsent):
            return None
        most = min(most, self._room_in_window())
        if most <= 0:
            return None
        message, numbers = self._again(most) if self._lost else self._new(most)
        dealt = self._deal(len(numbers))
        sent = sum(len(places) for places in dealt.values())
        if not sent:
            return None
        if self._unacknowledged == self._sent:
            self._progress_ns = now
        bursts = [self._burst(message, path, [numbers[at] for at in places], now) for path, places in dealt.items()]
        is_again = bool(self._lost)
        if is_again:
            self.retransmits += sent
            for _ in range(sent):
                self._lost.popleft()
        else:
            self._sent += sent
            if self._sent == message.first + message.packets:
                self._unsent.popleft()
        self.sent_packets += sent
        bursts += self._probes_due(now)
        first = wrap(self.initial_psn + message.first)
        return Spray(message, first, numbers[0] - message.first, sent, False, is_again, bursts)

    def _new(self, most: int) -> tuple[Message, Sequence[int]]:
        message = self._unsent[0]
        end = min(message.first + message.packets, self._unacknowledged + self._span, self._sent + most)
        return message, range(self._sent, end)

    def _again(self, most: int) -> tuple[Message, Sequence[int]]:
        """The first packets to be sent again that are of one message."""
        first = self._lost[0]
        message = next(one for one in self._messages if first < one.first + one.packets)
        end = message.first + message.packets
        numbers: list[int] = []
        for number in self._lost:
            if number >= end or number < message.first or len(numbers) == most:
                break
            numbers.append(number)
        return message, numbers

    def _deal(self, count: int) -> dict[int, list[int]]:
        """Packets to paths in turn, as far as their windows allow: path → places, 0 … count - 1."""
        rooms = self._open_paths()
        open_paths = list(rooms)
        dealt: dict[int, list[int]] = {}
        place = 0
        while open_paths and place < count:
            path = next((path for path in open_paths if path >= self._turn), open_paths[0])
            taken = min(self.batch_packets, count - place, rooms[path])
            dealt.setdefault(path, []).extend(range(place, place + taken))
            place += taken
            rooms[path] -= taken
            self._turn = path + 1
            if not rooms[path]:
                open_paths.remove(path)
        return dealt

    def _burst(self, message: Message, path: int, numbers: list[int], now: int) -> Burst:
        at = np.array(numbers) & len(self._state) - 1
        again = self._state[at] != _UNSENT
        first = self.paths.note_sent(path, len(numbers), again=int(again.sum()), now=now)
        self._is_again[at], self._state[at], self._path[at] = again, _FLYING, path
        self._place[at], self._sent_ns[at] = np.arange(first, first + len(numbers)), now
        return Burst(path, [number - message.first for number in numbers])

    def _probes_due(self, now: int) -> list[Burst]:
        """Probes of retired paths: each repeats a packet that is here, a different one for every path."""
        bursts = []
        for path in self.health.due(now):
            psn = wrap(self.initial_psn + self._unacknowledged - 1 - path)
            self._probes = {known: other for known, other in self._probes.items() if other != path} | {psn: path}
            bursts.append(Burst(path, (), psn))
        return bursts

    # Answers.

    def acknowledge_selectively(self, ack: SelectiveAck, now: int) -> Sequence[Message]:
        """Take a selective acknowledgement; returns the messages it completes, in order."""
        first, end = self._unacknowledged, self._sent
        base = unwrapped(ack.psn, self.initial_psn + first) - self.initial_psn + 1
        if self.failure is not None or not first - MOST_AHEAD <= base <= end:
            self.refused_packets += self.failure is None
            return NOTHING
        self._take_acknowledged(_received(ack.bitmap, base - first, end - first), now)
        done = self._advance(base, now)
        for reason, psn in ack.reports:
            self._take_report(reason, psn, now)
        self._find_losses(now)
        if ack.syndrome >= Syndrome.RNR:
            self._refused_for_good(ack.syndrome)
        return done

    def _take_acknowledged(self, here: npt.NDArray[np.bool_], now: int) -> None:
        """Packets from the oldest one without an acknowledgement on that have arrived."""
        at = self._unacknowledged + np.flatnonzero(here) & len(self._state) - 1
        at = at[self._state[at] != _HERE]
        if not len(at):
            return
        flying = at[self._state[at] == _FLYING]
        if len(flying) < len(at):  # taken for lost too early
            self._lost = deque(n for n in self._lost if not here[n - self._unacknowledged])
            self.paths.note_found(self._path[at[self._state[at] == _LOST]])
        self._state[at] = _HERE
        self.paths.note_acknowledged(self._path[flying], self._place[flying], now)
        self._retries, self._waited_ns, self._progress_ns = 0, 0, now
        once = flying[~self._is_again[flying]]
        if not len(once):
            return
        latest = int(once[self._sent_ns[once].argmax()])
        sent_ns = int(self._sent_ns[latest])
        self._answered_at_ns = max(self._answered_at_ns, sent_ns)
        self.paths.note_rtt(int(self._path[latest]), now - sent_ns)
        self.rtt_ns = now - sent_ns if self.rtt_ns is None else self.rtt_ns + (now - sent_ns - self.rtt_ns) // 8

    def _advance(self, end: int, now: int) -> Sequence[Message]:
        """Everything before packet `end` is at the peer; returns the messages that are complete."""
        if end <= self._unacknowledged:
            return NOTHING
        self._state[np.arange(self._unacknowledged, end) & len(self._state) - 1] = _UNSENT
        self._unacknowledged, self._retries, self._progress_ns = end, 0, now
        done: list[Message] = []
        while self._messages and self._messages[0].first + self._messages[0].packets <= end:
            done.append(self._messages.popleft())
        return done

    def _take_report(self, reason: int, psn: Psn, now: int) -> None:
        if reason == Reason.DUPLICATE:
            path = self._probes.pop(psn, None)
            if path is not None and self.health.answered(path):
                self.paths.lost_in_row[path] = 0
            return
        number = unwrapped(psn, self.initial_psn + self._unacknowledged) - self.initial_psn
        if not self._unacknowledged <= number < self._sent:
            return
        at = number & len(self._state) - 1
        path = int(self._path[at])
        if reason == Reason.MARKED:
            self.paths.marked[path] += 1
            self.paths.slow_down(path, int(self._place[at]))
        elif reason == Reason.TRIMMED and self._state[at] == _FLYING and not self._is_fresh(at, now):
            self.paths.trimmed[path] += 1
            self._lose(np.array([number]))

    def _is_fresh(self, at: int, now: int) -> bool:
        """Whether a packet was sent again so lately that what is said of it is of the one before."""
        return bool(self._is_again[at]) and now - int(self._sent_ns[at]) < (self.rtt_ns or 0)

    # Losses.

    def _find_losses(self, now: int) -> None:
        """What packets sent later on its path have overtaken is lost, and what is in flight on a path that fails."""
        flying = self._flying()
        at = flying & len(self._state) - 1
        overtaken = self._place[at] + REORDER_PACKETS <= self.paths.newest[self._path[at]]
        if overtaken.any():
            self._lose(flying[overtaken])
        answered_ns = self._answered_at_ns
        for path in {*self.paths.losing(answered_ns), *self.paths.silent(answered_ns, now)}:
            if self.health.retire(path, now):
                flying = self._flying()
                self._lose(flying[self._path[flying & len(self._state) - 1] == path])

    def _flying(self) -> npt.NDArray[np.int64]:
        numbers = np.arange(self._unacknowledged, self._sent)
        flying: npt.NDArray[np.int64] = numbers[self._state[numbers & len(self._state) - 1] == _FLYING]
        return flying

    def _lose(self, numbers: npt.NDArray[np.int64]) -> None:
        """These packets, which are in flight, are to be sent again, the oldest first."""
        if not len(numbers):
            return
        at = numbers & len(self._state) - 1
        self._state[at] = _LOST
        for path in np.unique(self._path[at]).tolist():
            places = self._place[at[self._path[at] == path]]
            self.paths.note_lost(path, len(places), int(places.max()))
        self._lost = deque(sorted([*self._lost, *numbers.tolist()]))

    def handle_timer(self, now: int) -> None:
        """To be called at `deadline_ns`: what is unanswered takes other paths, or the peer has failed."""
        if now < self.deadline_ns:
            return
        self._waited_ns += self._patience_ns()
        if not self._timed_out(now, is_last=self._waited_ns >= self._longest_wait_ns()):
            return
        flying = self._flying()
        paths = np.unique(self._path[flying & len(self._state) - 1])
        in_row = self.paths.lost_in_row.copy()
        in_row[paths] += LOSSES_TO_RETIRE // 2  # a path that is silent twice is not used any more
        self._lose(flying)
        self.paths.lost_in_row[:] = in_row

    def _longest_wait_ns(self) -> int:
        """How long the peer may say nothing: as long as a reliable connection waits with these settings."""
        timeout, count = self.settings.timeout_ns, self.settings.retry_count
        return sum(timeout * min(LONGEST_TIMEOUT_FACTOR, 1 << tried) for tried in range(count + 1))


def _received(bitmap: bytes, start: int, count: int) -> npt.NDArray[np.bool_]:
    """Which of `count` packets have arrived: those before `start`, and those of a bitmap that begins there."""
    here = np.zeros(count, np.bool_)
    here[: max(0, start)] = True
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little").astype(np.bool_)
    bits = bits[max(0, -start) :]
    first = max(0, start)
    part = bits[: max(0, count - first)]
    here[first : first + len(part)] |= part
    return here
