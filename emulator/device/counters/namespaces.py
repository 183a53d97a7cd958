"""Reads the counters of a lab: those of every port in its namespace, and those of the profile.

Files and sockets stay in the namespace they were opened in: the thread enters each namespace once, and then reads all
of them from its own.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from emulator.device.counters.counters import CounterReading
from emulator.device.counters.profile_counters import ProfileCounter, sum_up
from emulator.device.lab.model import OVS, Node
from emulator.device.lab.packet_sockets import SOCKET_DROPS, drops, packet_sockets
from emulator.device.profile.nftables import parse_counters
from emulator.errors import HostError
from emulator.host.resources import exhausted, reserve

_OWN = "/proc/thread-self/ns/net"
_NET_DEV = "/proc/thread-self/net/dev"
_MOST_BYTES = 1 << 20
_IPROUTE_DESCRIPTORS = 4  # its netlink socket, and the event loop of its own


class NamespaceCounters:
    """Implements CounterSource for the nodes of a lab.

    Args:
        nodes: hosts and switches of the lab.
        profile: counters of the rules of the profile.
    """

    def __init__(self, nodes: Sequence[Node], profile: Sequence[ProfileCounter] = ()) -> None:
        self._nodes, self._profile = nodes, profile
        self._open: list[_OpenNode] = []
        self._stack = ExitStack()

    def open(self) -> None:
        """See CounterSource."""
        from pyroute2 import netns

        own = os.open(_OWN, os.O_RDONLY)
        try:
            for node in self._nodes:
                counters = [one for one in self._profile if one.node == node.name]
                self._open.append(self._stack.enter_context(_OpenNode(node, counters)))
        except (OSError, HostError) as error:
            self.close()
            what = f"namespaces of the lab cannot be entered ({error}): run the command with sudo"
            raise exhausted(error) or HostError(what) from error
        finally:
            netns.setns(own)
            os.close(own)

    def read(self) -> list[CounterReading]:
        """See CounterSource."""
        return [reading for node in self._open for reading in node.read()]

    def close(self) -> None:
        """See CounterSource."""
        self._open = []
        self._stack.close()


class _OpenNode:
    """A context manager: open files and sockets of one namespace. On entry, the thread moves into the namespace."""

    def __init__(self, node: Node, profile: Sequence[ProfileCounter]) -> None:
        self._node, self._profile = node, profile
        self._name = {port.device: port.name for port in node.ports}
        self._sockets: Mapping[str, socket.socket] = {}

    def __enter__(self) -> _OpenNode:
        from pyroute2 import IPRoute, netns  # slow to import, and most commands do not need it

        netns.setns(self._node.namespace)
        self._stack = ExitStack()
        self._net_dev = os.open(_NET_DEV, os.O_RDONLY)
        self._stack.callback(os.close, self._net_dev)
        self._namespace = os.open(_OWN, os.O_RDONLY)
        self._stack.callback(os.close, self._namespace)
        if self._node.kind == OVS:
            self._sockets = packet_sockets([self._node.namespace])
            for sock in self._sockets.values():
                self._stack.enter_context(sock)
        reserve(descriptors=_IPROUTE_DESCRIPTORS)  # without them pyroute2 leaves an event loop that prints a traceback
        self._netlink = self._stack.enter_context(IPRoute())
        links = ((link["index"], link.get("ifname")) for link in self._netlink.get_links())
        self._index = {index: name for index, name in links if name in self._name}
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def read(self) -> Iterator[CounterReading]:
        """All counters of the node."""
        device = self._node.name
        for name, counters in parse_net_dev(os.pread(self._net_dev, _MOST_BYTES, 0).decode()).items():
            if name in self._name:
                yield from (
                    CounterReading(device, self._name[name], counter, value) for counter, value in counters.items()
                )
        for index, counters in qdisc_counters(iter(self._netlink.get_qdiscs())).items():
            if index in self._index:
                port = self._name[self._index[index]]
                yield from (CounterReading(device, port, counter, value) for counter, value in counters.items())
        for name, sock in self._sockets.items():
            if name in self._name:
                yield CounterReading(device, self._name[name], SOCKET_DROPS, drops(sock))
        if self._profile:
            yield from sum_up(device, self._profile, self._objects())

    def _objects(self) -> Mapping[tuple[str, str], int]:
        """(family, name) → packets, of the counter objects of Charkha's tables."""
        from pyroute2 import netns

        own = os.open(_OWN, os.O_RDONLY)
        try:
            netns.setns(self._namespace)  # a child process starts in the namespace of the thread
            listed = subprocess.run(("nft", "-j", "list", "counters"), capture_output=True, check=False)
        finally:
            netns.setns(own)
            os.close(own)
        if listed.returncode:
            raise HostError(f"counters of {self._node.name} cannot be read: {listed.stderr.decode().strip()}")
        return parse_counters(listed.stdout)


QDISC_DROPS, QDISC_BACKLOG = "qdisc_drops", "qdisc_backlog_bytes"
_ROOT = 0xFFFFFFFF
"""TC_H_ROOT of linux/pkt_sched.h: the parent of the root discipline, whose counters include those of inner ones."""
_RX = {"rx_bytes": 0, "rx_packets": 1, "rx_errors": 2, "rx_dropped": 3}
_TX = {"tx_bytes": 8, "tx_packets": 9, "tx_errors": 10, "tx_dropped": 11}
_COLUMNS = _RX | _TX


def parse_net_dev(text: str) -> Mapping[str, Mapping[str, int]]:
    """Device → counter → value, from /proc/net/dev with its two header lines."""
    found = {}
    for line in text.splitlines()[2:]:
        device, _, numbers = line.partition(":")
        values = numbers.split()
        found[device.strip()] = {name: int(values[column]) for name, column in _COLUMNS.items()}
    return found


def qdisc_counters(messages: Iterator[Any]) -> Mapping[int, Mapping[str, int]]:
    """Interface index → drops and backlog (bytes) of its root discipline, from a netlink dump by pyroute2."""
    found = {}
    for message in messages:
        statistics = message.get("stats2")
        queue = (
            statistics.get_attr("TCA_STATS_QUEUE") if statistics is not None and message["parent"] == _ROOT else None
        )
        if queue is not None:
            found[message["index"]] = {QDISC_DROPS: queue["drops"], QDISC_BACKLOG: queue["backlog"]}
    return found
