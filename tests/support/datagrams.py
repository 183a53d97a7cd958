"""Datagrams between two namespaces, with the first bytes of a BTH: what a switch's rules did to them shows at the end.

python -m tests.support.datagrams receive ADDRESS   counts until stdin is closed and a second was quiet; prints JSON
python -m tests.support.datagrams send FROM TO COUNT OPCODE [SYNDROME]
"""

import json
import select
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

PORT = 4791
ECT0, CE = 2, 3
PAYLOAD_BYTES = 1000
_PAUSE_S, _BURST = 0.001, 4
"""A userspace switch loses what comes faster than it is scheduled."""


@dataclass(frozen=True)
class Arrived:
    """What came: datagrams, those with Congestion Experienced, numbers that came twice."""

    datagrams: int
    marked: int
    twice: int


def exchange(
    sender: Sequence[str], receiver: Sequence[str], ends: tuple[str, str], *, count: int, opcode: int, syndrome: int = 0
) -> Arrived:
    """Send numbered datagrams from one namespace to another.

    Args:
        sender, receiver: what runs a command in either.
        ends: their addresses.
        opcode: first byte of the BTH.
        syndrome: first byte behind the BTH.
    """
    here = [sys.executable, "-m", "tests.support.datagrams"]
    command = [*receiver, *here, "receive", ends[1]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout.readline() == "ready\n"
        words = [*sender, *here, "send", *ends, str(count), str(opcode), str(syndrome)]
        subprocess.run(words, check=True, timeout=60)
        listener.stdin.close()
        return Arrived(**json.loads(listener.stdout.read()))


def _receive(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        option = (socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS) if ":" in address else (socket.IPPROTO_IP, 13)
        receiver.setsockopt(*option, 1)  # 13: IP_RECVTOS
        receiver.bind((address, PORT))
        print("ready", flush=True)
        receiver.settimeout(1)
        numbers: list[int] = []
        marked = 0
        while True:
            try:
                data, control, _, _ = receiver.recvmsg(2048, 64)
            except TimeoutError:
                if select.select([sys.stdin], [], [], 0)[0]:
                    break
                continue
            numbers.append(struct.unpack_from("!I", data, 16)[0])
            marked += any(value[0] & 3 == CE for _, _, value in control)
    twice = sum(count - 1 for count in Counter(numbers).values())
    print(json.dumps({"datagrams": len(numbers), "marked": marked, "twice": twice}))


def _send(source: str, target: str, count: int, opcode: int, syndrome: int) -> None:
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        option = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if ":" in source else (socket.IPPROTO_IP, socket.IP_TOS)
        sender.setsockopt(*option, ECT0)
        sender.bind((source, 0))
        for number in range(count):
            bth = struct.pack("!BxHxBHxBH", opcode, 0xFFFF, 0, 17, 0, number & 0xFFFF)
            if number % _BURST == 0:
                time.sleep(_PAUSE_S)
            sender.sendto(
                bth + bytes((syndrome, 0, 0, 0)) + struct.pack("!I", number) + bytes(PAYLOAD_BYTES), (target, PORT)
            )


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        _receive(sys.argv[2])
    else:
        _send(sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))
