"""Paces what the ranks at a port send together, and what all runs of an agent send through an interface.

Queue pairs send payload in turn, one run each. Acknowledgements, notifications and control messages are small and
urgent: they leave at once, and the next payload waits for longer. Under a limit of the machine's owner, control
messages wait as well: a controller decides how many there are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import Final

import numpy as np

from emulator.host.clock import Clock
from emulator.host.core_wait import CoreWait
from emulator.planner.network.header_overhead import roce_packet_bytes
from emulator.roce.connection.messages import PacketRun
from emulator.roce.pacing import Pacer
from emulator.roce.tuning import LONGEST_PACED_RUN_NS
from emulator.units import BITS_PER_BYTE, NS_PER_S

LEAST_NOTED_BYTES: Final = 16 << 10
"""Of a reception: smaller ones are few of the bytes of a large transfer, and most of those of small ones."""
_CHUNK_BYTES, _LEAST_CHUNKS, _MOST_NOTED = 64 << 10, 8, 1 << 12
_FASTER = 0.9
"""Times the median pace: a piece that took less did not come at the usual one."""
_MOST_UNREAD_BYTES = 128 << 10
"""What a receiver that keeps up finds in its sockets, at most, a quarter of the times that it reads. One that does not
always finds more, acknowledges late, and the sender goes at its pace."""


class Arrivals:
    """What came through a port lately: when by the kernel's stamp, how many bytes, and when they were read.

    Args:
        rate_bps: of the port, bit/s.
    """

    __slots__ = ("_byte_ns", "_noted")

    def __init__(self, rate_bps: float) -> None:
        self._byte_ns = BITS_PER_BYTE * NS_PER_S / rate_bps
        self._noted: list[tuple[int, int, int]] = []  # in order of reading

    def note(self, at_ns: int, size: int, read_ns: int) -> None:
        """A reception of at least LEAST_NOTED_BYTES is read."""
        self._noted.append((at_ns, size, read_ns))
        if len(self._noted) > 2 * _MOST_NOTED:
            del self._noted[:_MOST_NOTED]

    def usual_ns(self, since_ns: int, until_ns: int) -> int:
        """How long what came between two times takes at the median pace of its pieces of 64 KiB, ns.

        A sender that waits for a core leaves gaps, between which frames come as fast as the port passes them on. Pieces
        that came faster than the median count as they came: an algorithm may fill a port at one time only. 0: too
        little came to tell, or the receiver did not keep up.
        """
        noted = self._noted[bisect_left(self._noted, since_ns, key=itemgetter(2)) :]
        most_ns = _MOST_UNREAD_BYTES * self._byte_ns
        rows = np.array(sorted(one for one in noted if since_ns <= one[0] <= until_ns), np.int64).reshape(-1, 3)
        came = np.cumsum(rows[:, 1])
        ends = np.flatnonzero(np.diff(came // _CHUNK_BYTES)) + 1
        if len(ends) <= _LEAST_CHUNKS or np.quantile(rows[:, 2] - rows[:, 0], 0.25) > most_ns:
            return 0
        sizes = np.diff(came[ends])
        pace = np.diff(rows[ends, 0]) / sizes
        usual = float(np.median(pace))
        faster = pace < _FASTER * usual
        return round(float((pace * sizes)[faster].sum()) + usual * int(came[-1] - sizes[faster].sum()))


class Bucket:
    """Limits what is charged to it to a rate; who cannot send yet waits in line.

    Args:
        clock: for alarms when something may leave again.
        rate_bps: bit/s on the wire, headers included.
        lead_ns: how long before its time something may leave.

    Attributes:
        stalled_ns: for how long nothing was left to leave although somebody was in line: alarms were late.
    """

    def __init__(self, clock: Clock, *, rate_bps: int, lead_ns: int = 0) -> None:
        self._clock, self.rate_bps, self.lead_ns = clock, rate_bps, lead_ns
        self._pacer = Pacer(burst_ns=LONGEST_PACED_RUN_NS)
        self._waiting: deque[Callable[[int], None]] = deque()
        self._has_alarm = self._is_late = False
        self.stalled_ns = 0

    def packets_at_once(self, packet_bytes: int) -> int:
        """Maximum packets of a run: at low rates runs are short."""
        return self._pacer.most_packets(rate_bps=self.rate_bps, packet_bytes=packet_bytes)

    def is_free(self, now: int) -> bool:
        """Whether something may leave now."""
        return now >= self._pacer.next_ns - self.lead_ns

    def wait(self, take_turn: Callable[[int], None]) -> None:
        """Call back, with the time, when it is the turn of the caller to send."""
        self._waiting.append(take_turn)
        self._set_alarm()

    def charge_size(self, size: int, now: int) -> None:
        """Account for `size` bytes that leave now."""
        # A pause does not entitle to a burst; an alarm that is late for those who wait is no pause.
        if not self._is_late and not self._waiting:
            self._pacer.next_ns = max(self._pacer.next_ns, now)
        self._pacer.charge(size, rate_bps=self.rate_bps, now=now)

    def _set_alarm(self) -> None:
        if self._waiting and not self._has_alarm:
            self._has_alarm = True
            self._clock.call_at(self._pacer.next_ns - self.lead_ns, self._on_alarm)

    def _on_alarm(self) -> None:
        self._has_alarm = False
        now = self._clock.now()
        if self._waiting and now > self._pacer.next_ns:
            self.stalled_ns += now - self._pacer.next_ns
        self._is_late = True
        for _ in range(len(self._waiting)):
            if not Bucket.is_free(self, now):
                break
            self._waiting.popleft()(now)
        self._is_late = False
        self._set_alarm()


class PortPacer(Bucket):
    """Limits runs to a rate, headers of every layer included.

    Args:
        clock, rate_bps, lead_ns: see Bucket.
        path_mtu: payload of a full packet, bytes.
        is_v6: IP headers of 40 bytes instead of 20.
        extension_bytes: headers of every packet after its BTH.
        limit: of the machine's owner, for all ports of all runs at the interface; None: there is none.
        core_wait: learns how long the port has something to send.

    Attributes:
        arrivals: what comes through it.
        lead_bytes: payload that was given to it while it still had some to send, less that which it had to wait for.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        rate_bps: int,
        path_mtu: int,
        is_v6: bool,
        lead_ns: int = 0,
        extension_bytes: int = 0,
        limit: Bucket | None = None,
        core_wait: CoreWait | None = None,
    ) -> None:
        super().__init__(clock, rate_bps=rate_bps, lead_ns=lead_ns)
        self._path_mtu, self.limit, self._core_wait = path_mtu, limit, core_wait
        self.arrivals, self.lead_bytes = Arrivals(rate_bps), 0
        if core_wait is not None:
            core_wait.queues.append(self)
        self._empty_bytes = roce_packet_bytes(extension_bytes, ipv6=is_v6)
        buckets = (self,) if limit is None else (self, limit)
        self.most_packets = min(one.packets_at_once(self._empty_bytes + path_mtu) for one in buckets)
        """Maximum packets of a run."""

    @property
    def empty_ns(self) -> int:
        """When all that was charged has left."""
        return self._pacer.next_ns

    def is_free(self, now: int) -> bool:
        """Whether a run may leave now."""
        return now >= self._pacer.next_ns - self.lead_ns and (self.limit is None or self.limit.is_free(now))

    def wait(self, take_turn: Callable[[int], None]) -> None:
        """Call back, with the time, when it is the turn of the caller to send a run."""
        if self.limit is not None and super().is_free(self._clock.now()):
            self.limit.wait(take_turn)
        else:
            super().wait(take_turn)

    def charge(self, run: PacketRun, now: int) -> None:
        """Account for a run that leaves now."""
        message = run.message
        payload = run.packets * self._path_mtu
        if run.ends_message:
            payload -= message.packets * self._path_mtu - message.size
        self.lead_bytes += payload if now < self._pacer.next_ns else -payload
        self._charge_all(run.packets * self._empty_bytes + payload, now)

    def charge_small(self, now: int) -> None:
        """Account for an acknowledgement or notification that leaves now."""
        self._charge_all(self._empty_bytes, now)

    def _charge_all(self, size: int, now: int) -> None:
        if self._core_wait is not None:
            self._core_wait.until(now)
        self.charge_size(size, now)
        if self.limit is not None:
            self.limit.charge_size(size, now)
