"""Connections of rdma_cm and the records that describe them."""

import pytest

from agents.annexes.peer.connections import Connection, Local
from agents.annexes.peer.exchange import QpRecord
from agents.annexes.peer.rdma_cm import in_order
from emulator.errors import RemoteProtocolError
from emulator.roce.wire.psn import ZERO_PSN


def connection(qpn: int) -> Connection:
    return Connection("192.0.2.7", Local(qpn + 1000, ZERO_PSN), qpn, 0, peer_qpn=qpn)


def record(qpn: int) -> QpRecord:
    return QpRecord(qpn=qpn, psn=0, rkey=0, address=0, host="")


def test_connections_stand_in_the_order_of_the_records_although_one_came_late() -> None:
    connections = [connection(3), connection(1), connection(2)]
    found = in_order([record(1), record(2), record(3)], connections)
    assert [one.peer_qpn for one in found] == [1, 2, 3]


def test_a_queue_pair_that_was_not_connected_is_named() -> None:
    with pytest.raises(RemoteProtocolError, match="queue pair 0x9, which it did not connect"):
        in_order([record(9)], [connection(1)])
