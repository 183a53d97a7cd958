"""Link losses in a lab whose routers run BGP with BFD: when the routes changed, beside what a probe over UDP lost.

    python -m lab.benchmarks.convergence [--trials N]

Needs root and FRR. In a lab of leaf-spine-bgp, h1 sends h0 a datagram every millisecond by way of spine0. In turns, the
link from leaf0 to spine0 goes down, or stays up and delivers nothing to leaf0 (a rule of nftables), which only BFD
sees. Convergence is from the loss to leaf1's new route to h0, which no longer leads through spine0, both as the kernel
says over netlink. A link that goes down may lose frames from when the kernel was asked to when it says so: the script
takes the former, and prints how long that is. An outage is from when the first lost datagram was sent to when the first
one was that came again. Exit code 1 if the two differ by more than 5 ms in a trial, or nothing was lost.
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from emulator.annexes.routing import await_routes
from emulator.device.lab.commands import inside
from emulator.device.lab.labs import Labs
from emulator.device.lab.link_news import LinkNews
from emulator.device.lab.links import bring_up
from emulator.device.lab.model import Design, Node
from emulator.device.netlink import attributes, messages
from emulator.topology.load import load_topology

TOPOLOGY = Path("topologies/leaf-spine-bgp.yaml").resolve()
SENDER, RECEIVER, PREFIX, PORT = "198.18.2.1", "198.18.1.1", "198.18.1.0", 9_000
MS = 1_000_000
BEFORE_S, AFTER_S, MOST_DIFFERENCE_NS = 0.5, 1.0, 5 * MS
_NEW_ROUTE, _DELETE_ROUTE, _DESTINATION, _ROUTE_BYTES = 24, 25, 1, 12
_GROUP_ROUTES, _GROUP_NFTABLES = 0x40, 1 << 6
"""RTM_NEWROUTE, RTM_DELROUTE, RTA_DST, struct rtmsg and RTMGRP_IPV4_ROUTE of linux/rtnetlink.h; NFNLGRP_NFTABLES."""
_NETFILTER = 12
_DEAF = 'table inet deaf {\nchain c {\ntype filter hook prerouting priority raw\niifname "u0" drop\n}\n}\n'


class Trial(NamedTuple):
    """What was seen of a loss, ns; None: nothing.

    Attributes:
        convergence: until the route changed.
        outage: of the probe.
        within: in which the loss began.
    """

    convergence: int | None
    outage: int | None
    within: int

    @property
    def difference(self) -> int | None:
        """Convergence less outage."""
        return self.convergence - self.outage if self.convergence is not None and self.outage is not None else None

    @property
    def is_right(self) -> bool:
        """Whether both are there, and agree."""
        return self.difference is not None and abs(self.difference) <= MOST_DIFFERENCE_NS

    def __str__(self) -> str:
        convergence, outage, difference = (
            "none" if one is None else f"{one / MS:.2f} ms" for one in (self.convergence, self.outage, self.difference)
        )
        parts = f"convergence {convergence}, outage {outage}, difference {difference}"
        return f"{parts} (the loss began within {self.within / MS:.2f} ms)"


class Watch:
    """A context manager: sends the probe and listens to the kernel meanwhile."""

    def __init__(self, design: Design) -> None:
        leaf0, leaf1, h0, h1 = (design.node(name) for name in ("leaf0", "leaf1", "h0", "h1"))
        with inside(h0.namespace):
            self._receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._receiver.bind((RECEIVER, PORT))
        with inside(h1.namespace):
            self._sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._sender.bind((SENDER, _source_port(leaf1)))
        self._routes = _listener(leaf1, socket.NETLINK_ROUTE, _GROUP_ROUTES)
        self._rules = _listener(leaf0, _NETFILTER, _GROUP_NFTABLES)
        self.sent_ns: list[int] = []
        self.arrived: set[int] = set()
        self.routes_ns: list[int] = []
        self.rules_ns: list[int] = []
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._send, self._listen)]
        self._has_ended = threading.Event()

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._has_ended.set()
        for thread in self._threads:
            thread.join()
        for one in (self._sender, self._receiver, self._routes, self._rules):
            one.close()

    def outage_ns(self) -> int | None:
        """From when the first lost datagram was sent to when the next one was that came."""
        first = next((number for number in range(len(self.sent_ns)) if number not in self.arrived), None)
        again = next((n for n in range(first, len(self.sent_ns)) if n in self.arrived), None) if first else None
        return self.sent_ns[again] - self.sent_ns[first] if first and again else None

    def _send(self) -> None:
        due_ns = time.monotonic_ns()
        while not self._has_ended.is_set():
            self.sent_ns.append(time.monotonic_ns())
            self._sender.sendto(struct.pack("=Q", len(self.sent_ns) - 1), (RECEIVER, PORT))
            due_ns += MS
            time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)

    def _listen(self) -> None:
        poll = select.poll()
        for one in (self._receiver, self._routes, self._rules):
            poll.register(one, select.POLLIN)
        while not self._has_ended.is_set():
            for number, _ in poll.poll(10):
                now_ns = time.monotonic_ns()
                if number == self._receiver.fileno():
                    self.arrived.add(*struct.unpack("=Q", self._receiver.recv(8)))
                elif number == self._rules.fileno():
                    self._rules.recv(1 << 16)
                    self.rules_ns.append(now_ns)
                elif any(_is_of_prefix(*one) for one in messages(self._routes.recv(1 << 16))):
                    self.routes_ns.append(now_ns)


def trial(design: Design, folder: Path, *, is_silent: bool) -> Trial:
    """Lose the link once, and have it back."""
    leaf0 = design.node("leaf0")
    with LinkNews([leaf0]) as news, Watch(design) as watch:
        time.sleep(BEFORE_S)
        asked_ns = time.monotonic_ns()
        if is_silent:
            _nft(leaf0, "-f", "-", text=_DEAF)
        else:
            asked_ns = news.set("leaf0", ["u0"], is_up=False) or asked_ns
        time.sleep(AFTER_S)
    if is_silent:
        said_ns = next(iter(watch.rules_ns), asked_ns)
    else:
        said_ns = news.first("leaf0", "u0", is_up=False, after_ns=asked_ns) or asked_ns
    begin_ns = said_ns if is_silent else asked_ns
    route_ns = next((one for one in watch.routes_ns if one >= begin_ns), None)
    if is_silent:
        _nft(leaf0, "delete", "table", "inet", "deaf")
    bring_up(design)
    await_routes(design, folder)
    convergence_ns = route_ns - begin_ns if route_ns is not None else None
    return Trial(convergence_ns, watch.outage_ns(), said_ns - asked_ns)


def _is_of_prefix(kind: int, message: bytes) -> bool:
    if kind not in (_NEW_ROUTE, _DELETE_ROUTE):
        return False
    return (_DESTINATION, socket.inet_aton(PREFIX)) in attributes(message[_ROUTE_BYTES:])


def _source_port(leaf1: Node) -> int:
    """One whose flow leaf1 sends to spine0."""
    for port in range(49_152, 49_252):
        flow = f"{RECEIVER} from {SENDER} iif p0 ipproto udp sport {port} dport {PORT}"
        words = ["ip", "-n", leaf1.namespace, "route", "get", *flow.split()]
        way = subprocess.run(words, capture_output=True, text=True, check=False)
        if " dev u0 " in way.stdout:
            return port
    raise SystemExit(f"no flow of {SENDER} leads through spine0: {way.stdout}{way.stderr}")


def _nft(node: Node, *words: str, text: str = "") -> None:
    subprocess.run(["ip", "netns", "exec", node.namespace, "nft", *words], input=text, text=True, check=True)


def _listener(node: Node, protocol: int, groups: int) -> socket.socket:
    with inside(node.namespace):
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        sock.bind((0, groups))
    return sock


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.convergence", description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=20)
    chosen = parser.parse_args(arguments)
    with suppress(PermissionError):  # a probe that waits for a core seems lost
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    labs, lab, found = Labs(), f"convergence-{os.getpid()}", []
    try:
        design, folder = labs.up(load_topology(TOPOLOGY, ranks=0), lab_id=lab).design, labs.store.folder(lab)
        for number in range(chosen.trials):
            one = trial(design, folder, is_silent=bool(number % 2))
            found.append(one)
            what = "silent   " if number % 2 else "link down"
            print(f"{number:3} {what} {'right' if one.is_right else 'WRONG'}: {one}", flush=True)
    finally:
        labs.down(lab)
    differences = [abs(one.difference) / MS for one in found if one.difference is not None]
    print(f"{sum(one.is_right for one in found)} of {len(found)} right")
    if differences:
        print(f"difference {statistics.median(differences):.2f} ms at the median, at most {max(differences):.2f} ms")
    return int(not all(one.is_right for one in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
