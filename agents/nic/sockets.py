"""Sockets of the RoCE transport: one that listens per rank, one that sends per source port.

IPv4 datagrams leave from unconnected sockets with DF set: only there, the kernel writes predictable IP IDs (0; with
UDP_SEGMENT the index in the call), which the ICRC covers.
"""

from __future__ import annotations

import contextlib
import errno
import resource
import select
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agents.nic.system_calls import (
    IPV6_RECVTCLASS,
    IPV6_TCLASS,
    SO_RXQ_OVFL,
    SO_TIMESTAMPNS,
    UDP_GRO,
    ControlMessages,
    SendBatch,
    SocketAddress,
    cut_message,
    socket_address,
)
from emulator.errors import HostError
from emulator.roce.connection.messages import FirstSent
from emulator.roce.constants import UDP_PORT
from emulator.roce.tuning import LONGEST_BLOCK_MS, RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES
from emulator.roce.wire.headers import Buffer

_UDP_NO_CHECK6_RX = 102  # linux/udp.h
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PMTUDISC_DO = 10, 23, 2  # linux/in.h, linux/in6.h
IP_RECVTOS, _IPV6_FLOWINFO_SEND = 13, 33  # linux/in.h, linux/in6.h
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33  # asm-generic/socket.h

_SPARE_DESCRIPTORS = 256
_INT = struct.Struct("=i")


class Listener:
    """Receives datagrams to port 4791 of an address.

    Args:
        host: numeric IP address.
        has_ecn: whether to receive the ECN code point of every datagram.
        device: interface to receive from; None: any.
        has_stamps: whether to receive the kernel's time stamp of every datagram.

    Raises:
        HostError: the address is not on this host, the port is in use, or too many files are open.
    """

    def __init__(self, host: str, *, has_ecn: bool, device: str | None = None, has_stamps: bool = False) -> None:
        self.host, self.is_v6, self.has_stamps = host, ":" in host, has_stamps
        self.socket = _open(host, device)
        try:
            self._configure(has_ecn=has_ecn)
            self.socket.bind((host, UDP_PORT))
        except OSError as error:
            self.socket.close()
            raise _bind_error(host, UDP_PORT, error) from error
        self.buffer_bytes = granted_bytes(self.socket, socket.SO_RCVBUF)
        """Size of the buffer that the kernel granted, of RECEIVE_BUFFER_BYTES."""
        self.hold_ns = hold_ns(device) if has_stamps else 0

    def _configure(self, *, has_ecn: bool) -> None:
        sock = self.socket
        _grow(sock, socket.SO_RCVBUF, _SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, self.has_stamps)
        self.is_merging = True
        try:
            sock.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        except OSError:  # an old kernel does not merge datagrams
            self.is_merging = False
        if self.is_v6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.setsockopt(socket.IPPROTO_UDP, _UDP_NO_CHECK6_RX, 1)
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVTCLASS, int(has_ecn))
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_RECVTOS, int(has_ecn))


def hold_ns(device: str | None, root: Path = Path("/sys/class/net")) -> int:
    """For how long an interface holds merged frames to see whether more come, ns; None: the longest of all that do.

    Source: Linux, Documentation/networking/napi.rst (gro_flush_timeout).
    """
    found = [0]
    for path in root.glob(f"{device or '*'}/gro_flush_timeout"):
        with contextlib.suppress(OSError, ValueError):
            found.append(int(path.read_text()))
    return max(found)


class Sender:
    """Sends from one address and port.

    Args:
        host, port: source of the datagrams.
        traffic_class: default TOS or traffic class.
        device: interface to send through; None: as routed.
    """

    def __init__(self, host: str, port: int, *, traffic_class: int, device: str | None = None) -> None:
        self.is_v6, self.port = ":" in host, port
        self.drops = 0
        """Packets that the kernel did not accept."""
        self._socket = sock = _open(host, device)
        self._sendto, self._fd = sock.sendto, sock.fileno()
        self._names: dict[SocketAddress, bytes] = {}
        self._has_labels = False
        try:
            if self.is_v6:
                sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_DO)
                sock.setsockopt(socket.IPPROTO_IPV6, IPV6_TCLASS, traffic_class)
            else:
                sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_DO)
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, traffic_class)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)  # receives nothing
            _grow(sock, socket.SO_SNDBUF, _SO_SNDBUFFORCE, SEND_BUFFER_BYTES)
            sock.bind((host, port))
        except OSError as error:
            sock.close()
            raise _bind_error(host, port, error) from error
        self.buffer_bytes = granted_bytes(sock, socket.SO_SNDBUF)
        self._sendmsg = sock.sendmsg

    def use_flow_labels(self) -> None:
        """Take the flow label of an IPv6 datagram from the address that it is sent to."""
        if not self._has_labels:
            self._socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_FLOWINFO_SEND, 1)
            self._has_labels = True

    def send(
        self, pieces: Sequence[Buffer], to: SocketAddress, control: ControlMessages = (), *, packets: int = 1
    ) -> bool:
        """Send one call; returns False if the kernel dropped it.

        Raises:
            OSError: the call can never be sent.
        """
        try:
            self._sendmsg(pieces, control, 0, to)
        except OSError as error:
            return self._send_again(error, pieces, to, control, packets=packets)
        return True

    def send_cut(self, batch: SendBatch, slot: int, count: int, to: SocketAddress) -> None:
        """Send `count` packets of a batch from `slot` on, cut by the kernel; errors as for `send`."""
        name = self._names.get(to)
        if name is None:
            name = self._names[to] = socket_address(*to)
        taken = batch.send(self._fd, name, slot, count)
        while taken < count:  # the kernel refused the next call: sent alone, it reports why
            staging = batch.staging
            alone = min(staging.payload.per_call, count - taken)
            self.send(staging.pieces(slot + taken, alone), to, cut_message(staging.packet_bytes), packets=alone)
            taken += alone
            if taken < count:
                taken += batch.send(self._fd, name, slot + taken, count - taken)

    def send_whole(self, datagram: Buffer, to: SocketAddress) -> None:
        """Send one datagram; as `send`, but cheaper."""
        try:
            self._sendto(datagram, to)
        except OSError as error:
            self._send_again(error, (datagram,), to, ())

    def send_first(
        self,
        pieces: Sequence[Buffer],
        to: SocketAddress,
        sent: Sequence[FirstSent],
        control: ControlMessages = (),
        *,
        packets: int = 1,
    ) -> bool:
        """Send one call that has the first packets of transfers, as `send`; a sender without stamps learns nothing."""
        return self.send(pieces, to, control, packets=packets)

    def _send_again(
        self, error: OSError, pieces: Sequence[Buffer], to: SocketAddress, control: ControlMessages, packets: int = 1
    ) -> bool:
        if error.errno not in _PASSING:
            raise error
        if error.errno in _FULL and self._wait():
            try:
                self._sendmsg(pieces, control, 0, to)
            except OSError as again:
                if again.errno not in _PASSING:
                    raise
            else:
                return True
        self.drops += packets
        return False

    def close(self) -> None:
        """Close the socket, which frees the port."""
        self._socket.close()

    def _wait(self) -> bool:
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        return bool(poll.poll(LONGEST_BLOCK_MS))


_FULL = (errno.EAGAIN, errno.ENOBUFS)
_PASSING = (*_FULL, errno.EPERM, errno.ECONNREFUSED, errno.EINTR)  # EPERM: a filter of this host dropped it


class Senders:
    """Sending sockets by address and port, opened on first use.

    Every port that is asked for has a socket of its own while descriptors last. Half of what the limit of open files
    leaves is shared out evenly among the addresses, the other half goes to whoever asks first; after that, an address
    spreads its queue pairs over the ports it has.

    Args:
        traffic_class: see Sender.
        devices: address → interface to bind its sockets to.
        make: makes a socket, with the arguments of Sender; None: a Sender.
    """

    def __init__(
        self,
        *,
        traffic_class: int,
        devices: Mapping[str, str] | None = None,
        make: Callable[..., Sender] | None = None,
    ) -> None:
        self._make = make or Sender
        self._traffic_class, self._devices = traffic_class, devices or {}
        self._senders: dict[str, dict[int, Sender]] = {}
        self._limit = _raise_descriptor_limit()
        self._share = 0  # sockets that every address may open; 0: not yet known
        self._spare = 0  # further sockets, for any address
        self._retired_drops = 0
        self.least_buffer_bytes = SEND_BUFFER_BYTES
        """The smallest send buffer that the kernel granted."""
        self.opened = self.shared = 0
        """Sockets opened; requests for a port that were given a socket at another one for want of descriptors."""

    def add_host(self, host: str) -> None:
        """Reserve sockets for an address: all that receive are to be known before the first one sends."""
        self._senders.setdefault(host, {})

    def get(self, host: str, port: int) -> Sender:
        """The socket for an address and port; at the limit of open files, a socket at another port of the address.

        Raises:
            HostError: no socket can be opened.
        """
        there = self._senders.setdefault(host, {})
        sender = there.get(port)
        if sender is not None:
            return sender
        if not self._share:
            self._share_out()
        if len(there) >= self._share:
            if not self._spare:
                self.shared += 1
                return list(there.values())[port % len(there)]
            self._spare -= 1
        sender = there[port] = self._open(host, port)
        self.opened += 1
        self.least_buffer_bytes = min(self.least_buffer_bytes, sender.buffer_bytes)
        return sender

    def _share_out(self) -> None:
        is_open = sum(1 for _ in Path("/proc/self/fd").iterdir())
        room = self._limit - is_open - _SPARE_DESCRIPTORS
        hosts = len(self._senders)
        self._share = max(1, room // hosts // 2)
        self._spare = max(0, room - hosts * self._share)

    def _open(self, host: str, port: int) -> Sender:
        return self._make(host, port, traffic_class=self._traffic_class, device=self._devices.get(host))

    @property
    def drops(self) -> int:
        """Packets that the kernel did not accept."""
        return self._retired_drops + sum(one.drops for there in self._senders.values() for one in there.values())

    def close(self, host: str | None = None) -> None:
        """Close the sockets of an address, or all."""
        for address in [host] if host is not None else list(self._senders):
            there = self._senders.pop(address, {})
            self._spare += max(0, len(there) - self._share)
            for sender in there.values():
                self._retired_drops += sender.drops
                sender.close()


def traffic_class_message(traffic_class: int, *, is_v6: bool) -> ControlMessages:
    """The control message that sets the traffic class of a single datagram."""
    if is_v6:
        return ((socket.IPPROTO_IPV6, IPV6_TCLASS, _INT.pack(traffic_class)),)
    return ((socket.IPPROTO_IP, socket.IP_TOS, _INT.pack(traffic_class)),)


def _open(host: str, device: str | None) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    except OSError as error:
        raise HostError(f"cannot create a socket: {error.strerror}; raise `ulimit -n`") from error
    if device is not None:
        _bind_to_device(sock, device)
    return sock


def _bind_to_device(sock: socket.socket, device: str) -> None:
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    except OSError as error:
        sock.close()
        raise HostError(f"cannot use interface {device}: {error.strerror}; `ip link` lists those it has") from error


def granted_bytes(sock: socket.socket, option: int) -> int:
    """The size of a socket buffer as requested: the kernel reports twice that, with its own bookkeeping."""
    return sock.getsockopt(socket.SOL_SOCKET, option) // 2


def _grow(sock: socket.socket, option: int, forced: int, size: int) -> None:
    try:
        sock.setsockopt(socket.SOL_SOCKET, forced, size)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, option, size)


def _bind_error(host: str, port: int, error: OSError) -> HostError:
    if error.errno in (errno.EADDRNOTAVAIL, errno.ENODEV):
        return HostError(f"{host} is not an address of this host: `ip address` lists those it has")
    if error.errno == errno.EADDRINUSE:
        return HostError(f"UDP port {port} of {host} is in use; every rank needs its own address: `ss -lunp`")
    remedy = "; raise `ulimit -n`" if error.errno in (errno.EMFILE, errno.ENFILE) else ""
    return HostError(f"cannot use UDP port {port} of {host}: {error.strerror}{remedy}")


def _raise_descriptor_limit() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # if a container forbids it, the present limit applies
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft if soft != resource.RLIM_INFINITY else 1 << 20
