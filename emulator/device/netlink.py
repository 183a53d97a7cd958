"""Asks the kernel over netlink, without a library or a command: a reading of all queues of a switch takes 0.1 ms."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Final

from emulator.errors import HostError

_HEADER, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
_ERROR, _DONE = 2, 3
_REQUEST_DUMP = 0x301
"""NLMSG_ERROR, NLMSG_DONE, and NLM_F_REQUEST | NLM_F_DUMP, of linux/netlink.h."""
_KIND = 0x3FFF
"""NLA_TYPE_MASK."""
_MOST_BYTES = 1 << 16

_QDISC, _GET_QDISC, _ROOT = struct.Struct("=B3xiIII"), 38, 0xFFFFFFFF
_STATS, _STATS_QUEUE, _QUEUE = 7, 3, struct.Struct("=IIIII")
"""struct tcmsg, RTM_GETQDISC and TC_H_ROOT (the parent of the root discipline, whose counters include those of inner
ones); TCA_STATS2, TCA_STATS_QUEUE and struct gnet_stats_queue: of linux/rtnetlink.h, pkt_sched.h and gen_stats.h."""
_GET_OBJECT, _OBJECT = 10 << 8 | 19, struct.Struct("=BxH")
_NAME, _TYPE, _DATA, _PACKETS, _OF_COUNTERS = 2, 3, 4, 2, struct.pack(">I", 1)
_FAMILIES: Final = {1: "inet", 2: "ip", 5: "netdev", 7: "bridge", 10: "ip6"}
"""NFT_MSG_GETOBJ and struct nfgenmsg; NFTA_OBJ_*, NFTA_COUNTER_PACKETS and NFT_OBJECT_COUNTER; NFPROTO_*."""


def messages(content: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, content) of every whole message."""
    while len(content) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(content)
        yield kind, content[_HEADER.size : length]
        content = content[max(length + 3 & ~3, _HEADER.size) :]


def attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, value) of every attribute."""
    while len(content) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(content)
        yield kind & _KIND, content[_ATTRIBUTE.size : length]
        content = content[max(length + 3 & ~3, _ATTRIBUTE.size) :]


class Netlink(socket.socket):
    """A socket of the network namespace in which the thread is when it opens it.

    Args:
        protocol: NETLINK_ROUTE, or NETFILTER.

    Raises:
        OSError: there is no such protocol here, or too few descriptors.
    """

    NETFILTER: Final = 12

    def __init__(self, protocol: int) -> None:
        super().__init__(socket.AF_NETLINK, socket.SOCK_RAW, protocol)

    def dump(self, kind: int, request: bytes) -> Iterator[bytes]:
        """The answers to a request for all that there is.

        Raises:
            HostError: the kernel refuses.
        """
        self.send(_HEADER.pack(_HEADER.size + len(request), kind, _REQUEST_DUMP, 0, 0) + request)
        while True:
            for answer, body in messages(self.recv(_MOST_BYTES)):
                if answer == _ERROR:
                    (number,) = struct.unpack_from("=i", body)
                    raise HostError(f"the kernel does not say what its queues hold ({os.strerror(-number)})")
                if answer == _DONE:
                    return
                yield body


def root_queues(answers: Iterator[bytes]) -> Mapping[int, tuple[int, int]]:
    """Interface index → (drops, backlog in bytes) of its root discipline."""
    found = {}
    for body in answers:
        _, index, _, parent, _ = _QDISC.unpack_from(body)
        statistics = _only(body[_QDISC.size :], _STATS) if parent == _ROOT else b""
        if queue := _only(statistics, _STATS_QUEUE):
            _, backlog, drops, *_ = _QUEUE.unpack_from(queue)
            found[index] = drops, backlog
    return found


def counter_objects(answers: Iterator[bytes]) -> Mapping[tuple[str, str], int]:
    """(family, name) → packets of counters of nftables."""
    found = {}
    for body in answers:
        family, _ = _OBJECT.unpack_from(body)
        of_object = dict(attributes(body[_OBJECT.size :]))
        packets = _only(of_object.get(_DATA, b""), _PACKETS)
        if of_object.get(_TYPE) == _OF_COUNTERS and family in _FAMILIES:
            name = of_object[_NAME].rstrip(b"\0").decode(errors="replace")
            found[_FAMILIES[family], name] = int.from_bytes(packets, "big")
    return found


def read_queues(sock: Netlink) -> Mapping[int, tuple[int, int]]:
    """`root_queues` of a namespace."""
    return root_queues(sock.dump(_GET_QDISC, bytes(_QDISC.size)))


def read_objects(sock: Netlink) -> Mapping[tuple[str, str], int]:
    """`counter_objects` of a namespace."""
    return counter_objects(sock.dump(_GET_OBJECT, bytes(_OBJECT.size)))


def _only(content: bytes, kind: int) -> bytes:
    return next((value for one, value in attributes(content) if one == kind), b"")
