"""An interface as probes see it: whole frames in and out, in the namespace it is in."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from enum import Enum
from typing import Self

from pyroute2 import netns

from emulator.errors import HostError

_OWN = "/proc/thread-self/ns/net"
_ETH_P_ALL = 0x0003  # linux/if_ether.h
_SIOCGIFMTU, _SIOCSIFMTU, _SIOCGIFHWADDR = 0x8921, 0x8922, 0x8927  # linux/sockios.h
_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, _PACKET_AUXDATA, _PACKET_MR_PROMISC = 263, 1, 8, 1  # linux/if_packet.h
_PACKET_OUTGOING = 4
_STATUS_VLAN_VALID, _STATUS_VLAN_TPID_VALID = 1 << 4, 1 << 6
_AUXDATA = struct.Struct("=IIIHHHH")
_MACS = 12
_LARGEST = 1 << 16


class Refusal(Enum):
    """Why a frame did not leave this host."""

    TOO_LONG = "it is longer than the interface sends"
    QUEUE = "the interface's own queue dropped it, as a shaper does with what is over its MTU"


@contextlib.contextmanager
def inside(namespace: str | None) -> Iterator[None]:
    """This thread stands in a namespace meanwhile; None: where it is.

    Raises:
        HostError: it cannot be entered.
    """
    if namespace is None:
        yield
        return
    own = os.open(_OWN, os.O_RDONLY)
    try:
        try:
            netns.setns(namespace)
        except OSError as error:
            raise HostError(f"namespace {namespace} cannot be entered ({error}): run it as root") from error
        yield
    finally:
        netns.setns(own)
        os.close(own)


class ProbePort:
    """A context manager around a packet socket at an interface.

    Raises:
        HostError: there is no such interface, or no right to look at it.
    """

    def __init__(self, device: str, namespace: str | None = None) -> None:
        self.device = device
        with inside(namespace):
            try:
                self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK)
            except PermissionError as error:
                raise HostError("probes need CAP_NET_RAW: run it as root") from error
        try:
            self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
            self._socket.bind((device, _ETH_P_ALL))
            index = self._socket_index()
            promiscuous = struct.pack("=iHH8s", index, _PACKET_MR_PROMISC, 0, b"")
            self._socket.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, promiscuous)
        except OSError as error:
            self._socket.close()
            raise HostError(
                f"interface {device} cannot be used ({error.strerror}): `ip link` shows those here"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._socket.close()

    @property
    def mac(self) -> str:
        """Its own address."""
        answer = self._ask(_SIOCGIFHWADDR, bytes(24))
        return ":".join(f"{byte:02x}" for byte in answer[18:24])

    @property
    def mtu(self) -> int:
        """Bytes of an IP packet that it sends."""
        (mtu,) = struct.unpack_from("=i", self._ask(_SIOCGIFMTU, bytes(24)), 16)
        return int(mtu)

    @contextlib.contextmanager
    def mtu_of(self, mtu: int) -> Iterator[None]:
        """The interface sends packets one in bytes meanwhile.

        Raises:
            HostError: it cannot.
        """
        before = self.mtu
        try:
            self._ask(_SIOCSIFMTU, struct.pack("=i20x", mtu))
        except OSError as error:
            raise HostError(f"{self.device} cannot send {mtu} bytes ({error.strerror})") from error
        try:
            yield
        finally:
            self._ask(_SIOCSIFMTU, struct.pack("=i20x", before))

    def send(self, frame: bytes) -> Refusal | None:
        """Send a frame; why not, where this host keeps it.

        Raises:
            HostError: the interface cannot send at all.
        """
        try:
            self._socket.send(frame)
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                return Refusal.TOO_LONG
            if error.errno == errno.ENOBUFS:
                return Refusal.QUEUE
            raise HostError(f"{self.device} cannot send ({error.strerror}): ip link set {self.device} up") from error
        return None

    def received(self, fingerprint: bytes, *, within_s: float, more_within_s: float) -> list[bytes]:
        """Frames with these bytes that came in, VLAN tag included.

        Args:
            within_s: wait so long for the first.
            more_within_s: then so long for copies of it.
        """
        found: list[bytes] = []
        deadline = time.monotonic() + within_s
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self._socket], [], [], left)[0]:
                break
            frame = self._take()
            if frame is not None and fingerprint in frame:
                found.append(frame)
                deadline = min(deadline, time.monotonic() + more_within_s)
        return found

    def forget(self) -> None:
        """What came in so far is none of the next frame's."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(_LARGEST)

    def _take(self) -> bytes | None:
        """A frame as it was on the wire: the kernel takes the tag out, and tells it beside."""
        frame, control, _, where = self._socket.recvmsg(_LARGEST, socket.CMSG_SPACE(_AUXDATA.size))
        if where[2] == _PACKET_OUTGOING:
            return None
        for level, kind, value in control:
            if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
                status, *_, tag, protocol = _AUXDATA.unpack_from(value)
                if status & _STATUS_VLAN_VALID:
                    protocol = protocol if status & _STATUS_VLAN_TPID_VALID else 0x8100
                    return frame[:_MACS] + struct.pack("!HH", protocol, tag) + frame[_MACS:]
        return frame

    def _ask(self, question: int, argument: bytes) -> bytes:
        answer: bytes = fcntl.ioctl(self._socket, question, self.device.encode().ljust(16, b"\0") + argument)
        return answer

    def _socket_index(self) -> int:
        (index,) = struct.unpack_from("=i", self._ask(0x8933, bytes(24)), 16)  # SIOCGIFINDEX
        return int(index)
