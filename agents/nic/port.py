"""Paces what the ranks at a port send together, and what all runs of an agent send through an interface.

Queue pairs send payload in turn, one run each. Acknowledgements, notifications and control messages are small and
urgent: they leave at once, and the next payload waits for longer. Under a limit of the machine's owner, control
messages wait as well: a controller decides how many there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from emulator.host.clock import Clock
from emulator.planner.network.header_overhead import roce_packet_bytes
from emulator.roce.connection.messages import PacketRun
from emulator.roce.rate.pacing import Pacer
from emulator.roce.tuning import LONGEST_PACED_RUN_NS


class Bucket:
    """Limits what is charged to it to a rate; who cannot send yet waits in line.

    Args:
        clock: for alarms when something may leave again.
        rate_bps: bit/s on the wire, headers included.
        lead_ns: how long before its time something may leave.
    """

    def __init__(self, clock: Clock, *, rate_bps: int, lead_ns: int = 0) -> None:
        self._clock, self.rate_bps, self.lead_ns = clock, rate_bps, lead_ns
        self._pacer = Pacer(burst_ns=LONGEST_PACED_RUN_NS)
        self._waiting: deque[Callable[[int], None]] = deque()
        self._has_alarm = self._is_late = False

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
    ) -> None:
        super().__init__(clock, rate_bps=rate_bps, lead_ns=lead_ns)
        self._path_mtu, self.limit = path_mtu, limit
        self._empty_bytes = roce_packet_bytes(extension_bytes, ipv6=is_v6)
        buckets = (self,) if limit is None else (self, limit)
        self.most_packets = min(one.packets_at_once(self._empty_bytes + path_mtu) for one in buckets)
        """Maximum packets of a run."""

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
        self._charge_all(run.packets * self._empty_bytes + payload, now)

    def charge_small(self, now: int) -> None:
        """Account for an acknowledgement or notification that leaves now."""
        self._charge_all(self._empty_bytes, now)

    def _charge_all(self, size: int, now: int) -> None:
        self.charge_size(size, now)
        if self.limit is not None:
            self.limit.charge_size(size, now)
