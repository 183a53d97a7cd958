"""Queue pairs with two paths, each between other addresses; see docs/adr/0026.

A path of a queue pair is a channel of its own, at the NIC of its address. Both have one protocol state, so a packet is
answered on the path that it came on. The channel that is parked sends nothing else, and hands what it is asked to send
to the other one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agents.nic.channel import Channel
from emulator.errors import HostError
from emulator.host.clock import Clock
from emulator.roce.connection.messages import Message, PacketRun, Verb
from emulator.roce.connection.migration import ALTERNATE, PathState
from emulator.roce.connection.requester import Requester
from emulator.roce.connection.send_queue import NEVER
from emulator.roce.wire.psn import add


@dataclass(slots=True, eq=False)
class PathChannel(Channel):
    """One path of a queue pair.

    Attributes:
        is_alternate: the path that traffic takes only while the primary one is lost.
        is_parked: traffic takes the other path.
        twin: the other path of the queue pair.
        paths: those between the two ranks.
    """

    is_alternate: bool = False
    is_parked: bool = False
    twin: PathChannel | None = None
    paths: RankPaths | None = None

    def post_single(self, message: Message, ready: list[Channel], now: int) -> bool:
        """See Channel."""
        if self.is_parked:
            self.post(message)
            return False
        return Channel.post_single(self, message, ready, now)

    def send(self, now: int, turns: int = 1) -> None:
        """See Channel."""
        if self.is_parked and self.twin is not None:
            self.twin.send(now, turns)
        else:
            Channel.send(self, now, turns)

    def close(self) -> None:
        """See Channel."""
        Channel.close(self)
        if self.twin is not None and not self.twin.is_dead:
            self.twin.close()

    def receive(
        self, packets: memoryview, stride: int, port: int, now: int, is_marked: bool = False
    ) -> Sequence[memoryview]:
        """See Channel."""
        responder = self.pair.responder
        before, probes = (responder.expected, responder.duplicates), responder.probes
        others = Channel.receive(self, packets, stride, port, now, is_marked)
        if responder.probes != probes:  # on this path, whatever is owed on the other one
            self._send_small(lambda: self._transmitter.reply(responder.acknowledgement()))
        has_come = (responder.expected, responder.duplicates) != before
        if has_come and self.is_parked and self.is_alternate and self.paths is not None:
            self.paths.follow(self, now)
        return others

    def probe(self) -> None:
        """Ask whether the path works; what cannot be sent now gets no answer."""
        message = Message(Verb.WRITE, 0, rkey=self.facts.rkey)
        message.packets = 1
        psn = add(self.pair.requester.oldest_psn, -1)
        self._send_small(lambda: self._transmitter.send_run(PacketRun(message, psn, 0, 1, True, False)))

    def park(self) -> None:
        """Traffic takes the other path from now on."""
        self.is_parked = True
        self.agenda.active.discard(self)

    def move(self, now: int, *, is_other_lost: bool) -> None:
        """Traffic takes this path from now on. What the other one seems to have lost is sent again."""
        assert self.twin is not None
        self.twin.park()
        self.is_parked = False
        requester = self.pair.requester
        assert isinstance(requester, Requester)
        if is_other_lost or requester.is_unanswered:
            self.twin._ready.clear()
            requester.migrate(now)
        self.send(now)

    def _gave_up(self, reason: str, now: int) -> None:
        if not self._leaves(now):
            Channel._gave_up(self, f"{reason}, on both paths", now)

    def _fail(self, error: OSError | HostError) -> None:
        if self.is_parked:
            return  # an answer on a lost path
        if isinstance(error, HostError) or not self._leaves(self.context.clock.now()):
            Channel._fail(self, error)

    def _leaves(self, now: int) -> bool:
        return self.paths is not None and self.paths.exhausted(self, now)

    def _answered(self, completed: Sequence[Message], now: int) -> None:
        if self.is_parked and self.paths is not None:
            self.paths.heard(self)
        Channel._answered(self, completed, now)


class RankPaths:
    """The two paths between two ranks, which all their queue pairs use alike.

    Args:
        clock: for probes.
        watch: to be called after something was sent, see Passes.
    """

    def __init__(self, clock: Clock, watch: Callable[[], None]) -> None:
        self._clock, self._watch, self.state = clock, watch, PathState()
        self._alternates: list[PathChannel] = []
        self._prober: PathChannel | None = None
        self._has_alarm = False

    def join(self, primary: PathChannel, alternate: PathChannel) -> None:
        """Add a queue pair, which has carried nothing yet."""
        primary.twin, alternate.twin = alternate, primary
        primary.paths = alternate.paths = self
        alternate.is_alternate = primary.pair.responder.is_probed = True
        self._alternates.append(alternate)
        (primary if self.state.path == ALTERNATE else alternate).park()

    def exhausted(self, channel: PathChannel, now: int) -> bool:
        """The peer does not answer a queue pair, or nothing can be sent; whether it goes on over the other path."""
        if not self.state.exhausted(now, channel.facts.qpn):
            return False
        if self.state.path == ALTERNATE:
            self._leave(channel, now)
        else:
            self._return(now, is_alternate_lost=True)
        return True

    def follow(self, channel: PathChannel, now: int) -> None:
        """The peer sends on the alternate path although this end does not."""
        if self.state.follow(now, channel.facts.qpn):
            self._leave(channel, now)

    def heard(self, channel: PathChannel) -> None:
        """An acknowledgement came on the path that is not used."""
        if channel is self._prober:
            self.state.heard()

    def _leave(self, channel: PathChannel, now: int) -> None:
        """Go to the alternate path; the queue pair that lost its peer asks for the primary one."""
        self._prober = channel.twin if channel.is_alternate else channel
        for alternate in self._alternates:
            alternate.move(now, is_other_lost=True)
        self._set_alarm()

    def _return(self, now: int, *, is_alternate_lost: bool) -> None:
        for alternate in self._alternates:
            assert alternate.twin is not None
            alternate.twin.move(now, is_other_lost=is_alternate_lost)
        self._watch()

    def _set_alarm(self) -> None:
        if not self._has_alarm and self.state.probe_ns != NEVER:
            self._has_alarm = True
            self._clock.call_at(self.state.probe_ns, self._on_alarm)

    def _on_alarm(self) -> None:
        self._has_alarm = False
        prober, now = self._prober, self._clock.now()
        if prober is None or prober.is_dead or self.state.probe_ns == NEVER:
            return
        if now < self.state.probe_ns:
            self._set_alarm()
        elif self.state.probe(now):
            prober.probe()
            self._set_alarm()
        else:
            self._return(now, is_alternate_lost=False)
