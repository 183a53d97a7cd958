"""Interface counters as the kernel prints and sends them."""

from __future__ import annotations

import os
import resource

import pytest

from emulator.device.counters.namespaces import NamespaceCounters, parse_net_dev, qdisc_counters
from emulator.device.lab.model import Node
from emulator.errors import HostError
from tests.support.limits import limited

NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
  eth0: 2124000    2000    1    7    0     0          0         0  2096000    1999    3    4    0     0       0          0
"""  # noqa: E501


class Message(dict[str, object]):
    """A netlink message as pyroute2 decodes it."""

    def get_attr(self, name: str) -> object:
        return self.get(name)


def test_interface_counters_are_found_in_their_columns() -> None:
    assert parse_net_dev(NET_DEV)["eth0"] == {
        "rx_bytes": 2124000,
        "rx_packets": 2000,
        "rx_errors": 1,
        "rx_dropped": 7,
        "tx_bytes": 2096000,
        "tx_packets": 1999,
        "tx_errors": 3,
        "tx_dropped": 4,
    }


def test_drops_of_a_device_are_those_of_its_root_discipline() -> None:
    root, inner = ({"drops": drops, "backlog": 7} for drops in (5, 4))
    messages = [
        Message(index=2, parent=0xFFFFFFFF, stats2=Message(TCA_STATS_QUEUE=root)),
        Message(index=2, parent=0x10001, stats2=Message(TCA_STATS_QUEUE=inner)),
        Message(index=3, parent=0xFFFFFFFF, stats2=None),
    ]
    assert qdisc_counters(iter(messages)) == {2: {"qdisc_drops": 5, "qdisc_backlog_bytes": 7}}


def test_every_interface_of_the_file_is_read() -> None:
    assert list(parse_net_dev(NET_DEV)) == ["lo", "eth0"]
    assert set(parse_net_dev(NET_DEV)["lo"].values()) == {0}


def test_large_counters_without_a_space_after_the_colon_are_read() -> None:
    line = "  eth0:18446744073709551615 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
    found = parse_net_dev("".join(NET_DEV.splitlines(keepends=True)[:2]) + line)
    assert (found["eth0"]["rx_bytes"], found["eth0"]["tx_dropped"]) == (2**64 - 1, 12)


def test_a_discipline_without_statistics_of_its_queue_is_ignored() -> None:
    assert qdisc_counters(iter([Message(index=2, parent=0xFFFFFFFF, stats2=Message())])) == {}


@pytest.mark.parametrize("spare", range(3, 7))
def test_too_few_descriptors_are_named_and_leave_no_traceback(spare: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pytest fails a test in which a destructor raises. The test stays in its own namespace."""
    monkeypatch.setattr("pyroute2.netns.setns", lambda namespace: None)
    next_free = os.dup(0)
    os.close(next_free)
    counters = NamespaceCounters([Node("s0", "bridge", "none", [])])
    with limited(resource.RLIMIT_NOFILE, next_free + spare), pytest.raises(HostError, match="too many open files"):
        counters.open()
