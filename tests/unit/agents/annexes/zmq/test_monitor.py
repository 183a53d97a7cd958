"""Connections from the events of ZeroMQ: lost, refused, and those that cannot be made."""

import errno

import pytest
import zmq

from agents.annexes.zmq.monitor import ATTEMPTS, Connections

HERE, PEER = "tcp://192.0.2.1:5000", "192.0.2.2:5000"
FIRST, SECOND = f"tcp://192.0.2.1:0;{PEER}", f"tcp://192.0.2.3:0;{PEER}"


class Monitor:
    """Connections, and what they report."""

    def __init__(self) -> None:
        self.lost: list[tuple[str, str]] = []
        self.refused: list[tuple[str, str]] = []
        self.connections = Connections(refused_peer=lambda where, reason: self.refused.append((where, reason)))

    def watch(self, connection: str) -> None:
        self.connections.watch(connection, lambda reason: self.lost.append((connection, reason)))

    def handle(self, event: int, where: str, *, value: int = 0, times: int = 1) -> None:
        for _ in range(times):
            self.connections.handle(event, value, where)


@pytest.fixture
def monitor() -> Monitor:
    return Monitor()


def test_a_connection_counts_from_the_moment_it_is_watched(monitor: Monitor) -> None:
    monitor.watch(FIRST)
    assert monitor.connections.connections == 1
    monitor.handle(zmq.EVENT_CONNECTED, FIRST)
    assert monitor.connections.connections == 1
    monitor.connections.forget(FIRST)
    assert monitor.connections.connections == 0


def test_accepted_connections_count_until_they_end(monitor: Monitor) -> None:
    monitor.handle(zmq.EVENT_ACCEPTED, HERE, times=2)
    assert monitor.connections.connections == 2
    monitor.handle(zmq.EVENT_DISCONNECTED, HERE)
    assert (monitor.connections.connections, monitor.lost) == (1, [])


def test_a_lost_connection_is_reported_once(monitor: Monitor) -> None:
    monitor.watch(FIRST)
    monitor.watch(SECOND)
    monitor.handle(zmq.EVENT_CONNECTED, FIRST)
    monitor.handle(zmq.EVENT_DISCONNECTED, FIRST, times=2)
    assert monitor.lost == [(FIRST, "the connection was lost")]
    assert monitor.connections.connections == 1


def test_a_connection_that_is_no_longer_watched_is_not_reported(monitor: Monitor) -> None:
    monitor.watch(FIRST)
    monitor.connections.forget(FIRST)
    monitor.handle(zmq.EVENT_DISCONNECTED, FIRST)
    assert monitor.lost == []


@pytest.mark.parametrize("event", [zmq.EVENT_CONNECT_RETRIED, zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL])
def test_a_peer_that_never_accepts_is_unreachable_after_a_number_of_attempts(monitor: Monitor, event: int) -> None:
    monitor.watch(FIRST)
    monitor.handle(event, f"tcp://{PEER}", times=ATTEMPTS - 1)
    assert monitor.lost == []
    monitor.handle(event, f"tcp://{PEER}")
    assert monitor.lost == [(FIRST, "cannot connect")]
    monitor.handle(event, f"tcp://{PEER}", times=ATTEMPTS)
    assert len(monitor.lost) == 1


def test_attempts_to_one_address_are_spread_over_its_connections(monitor: Monitor) -> None:
    """ZeroMQ reports the remote address of a failed attempt, but not the connection."""
    monitor.watch(FIRST)
    monitor.watch(SECOND)
    monitor.handle(zmq.EVENT_CONNECT_RETRIED, f"tcp://{PEER}", times=2 * ATTEMPTS - 2)
    assert monitor.lost == []
    monitor.handle(zmq.EVENT_CONNECT_RETRIED, f"tcp://{PEER}", times=2)
    assert sorted(connection for connection, _ in monitor.lost) == [FIRST, SECOND]


def test_a_connection_that_was_made_is_not_charged_with_failed_attempts(monitor: Monitor) -> None:
    monitor.watch(FIRST)
    monitor.handle(zmq.EVENT_CONNECTED, FIRST)
    monitor.handle(zmq.EVENT_CONNECT_RETRIED, f"tcp://{PEER}", times=2 * ATTEMPTS)
    assert monitor.lost == []


def test_failed_attempts_to_unknown_addresses_are_ignored(monitor: Monitor) -> None:
    monitor.handle(zmq.EVENT_CONNECT_RETRIED, "tcp://192.0.2.9:1", times=ATTEMPTS)
    assert monitor.lost == []


def test_a_peer_that_cannot_be_accepted_is_reported_with_the_reason(monitor: Monitor) -> None:
    monitor.handle(zmq.EVENT_ACCEPT_FAILED, HERE, value=errno.EMFILE)
    assert monitor.refused == [(HERE, "a peer's connection cannot be accepted: Too many open files")]
