"""Paces what the ranks at a port send together.

Queue pairs send payload in turn, one run each. Acknowledgements, notifications and control messages are small and
urgent: they leave at once, and the next payload waits for longer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from emulator.host.clock import Clock
from emulator.planner.network.header_overhead import roce_packet_bytes
from emulator.roce.messages import Run
from emulator.roce.pacing import Pacer
from emulator.roce.tuning import LONGEST_PACED_RUN_NS


class PortPacer:
    """Limits runs to a rate, headers of every layer included.

    Args:
        clock: for alarms when the port is free again.
        rate_bps: bit/s on the wire.
        path_mtu: payload of a full packet, bytes.
        is_v6: IP headers of 40 bytes instead of 20.
        lead_ns: how long before its time a run may leave.
        extension_bytes: headers of every packet after its BTH.
    """

    def __init__(
        self, clock: Clock, *, rate_bps: int, path_mtu: int, is_v6: bool, lead_ns: int = 0, extension_bytes: int = 0
    ) -> None:
        self._clock, self._rate_bps, self._path_mtu = clock, rate_bps, path_mtu
        self._empty_bytes = roce_packet_bytes(extension_bytes, ipv6=is_v6)
        self._pacer, self.lead_ns = Pacer(burst_ns=LONGEST_PACED_RUN_NS), lead_ns
        self._waiting: deque[Callable[[int], None]] = deque()
        self._has_alarm = self._is_late = False
        self.most_packets = self._pacer.most_packets(rate_bps=rate_bps, packet_bytes=self._empty_bytes + path_mtu)
        """Maximum packets of a run: at low rates runs are short."""

    def is_free(self, now: int) -> bool:
        """Whether a run may leave now."""
        return now >= self._pacer.next_ns - self.lead_ns

    def wait(self, take_turn: Callable[[int], None]) -> None:
        """Call back, with the time, when it is the turn of the caller to send a run."""
        self._waiting.append(take_turn)
        self._set_alarm()

    def charge(self, run: Run, now: int) -> None:
        """Account for a run that leaves now."""
        message = run.message
        payload = run.packets * self._path_mtu
        if run.ends_message:
            payload -= message.packets * self._path_mtu - message.size
        self._charge(run.packets * self._empty_bytes + payload, now)

    def charge_small(self, now: int) -> None:
        """Account for an acknowledgement or notification that leaves now."""
        self._charge(self._empty_bytes, now)

    def _charge(self, size: int, now: int) -> None:
        if (
            not self._is_late and not self._waiting
        ):  # a pause does not entitle to a burst; lateness with a backlog is none
            self._pacer.next_ns = max(self._pacer.next_ns, now)
        self._pacer.charge(size, rate_bps=self._rate_bps, now=now)

    def _set_alarm(self) -> None:
        if self._waiting and not self._has_alarm:
            self._has_alarm = True
            self._clock.call_at(self._pacer.next_ns - self.lead_ns, self._on_alarm)

    def _on_alarm(self) -> None:
        self._has_alarm = False
        now = self._clock.now()
        self._is_late = True
        for _ in range(len(self._waiting)):
            if not self.is_free(now):
                break
            self._waiting.popleft()(now)
        self._is_late = False
        self._set_alarm()
