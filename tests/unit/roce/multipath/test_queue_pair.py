"""DCQCN sets the rate of a queue pair; marks also name the paths."""

from emulator.roce.connection.messages import ConnectionSettings, Message, Verb
from emulator.roce.multipath.paths import Health
from emulator.roce.multipath.queue_pair import MultipathPair
from emulator.roce.multipath.wire import Placed, Reason, SelectiveAck
from emulator.roce.rate.congestion import FixedRate
from emulator.roce.wire.psn import Psn


def test_marked_packets_cause_a_notification_and_are_named() -> None:
    pair = MultipathPair(ConnectionSettings())
    pair.responder.begin()
    pair.responder.place(Placed(Psn(0), 0, 0, 10, None, True, 28))
    assert pair.marked(1, 10**9)
    ack = pair.responder.take_reply()
    assert isinstance(ack, SelectiveAck)
    assert (pair.ecn_marks, ack.reports) == (1, [(Reason.MARKED, 0)])


def test_a_rate_paces_the_packets_of_all_paths_together() -> None:
    pair = MultipathPair(ConnectionSettings(path_mtu=1024), congestion=FixedRate(8e6), health=Health(4))
    pair.requester.post(Message(Verb.WRITE, 1 << 20))
    run = pair.next_run(10**9, 64)
    assert run is not None
    assert pair.next_run(10**9, 64) is None
    assert pair.paced_until > 10**9
