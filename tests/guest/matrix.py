"""Every stock perftest test against Charkha's software NIC: `python -m tests.guest.matrix`.

Tests by roles, IP versions, path MTUs, queue pairs and losses, each one judged: both ends exit with 0, and messages and
bytes are the same as the stock tool's, as ours, and as in a capture at the machine's port. Packets that this end sent
are counted in a second capture at its own port. The audit must find no violation, tshark no malformed packet, and a CRC
that is calculated here without Charkha's code must agree for every packet.
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.annexes.bench_kit.audit.audit import audit_file
from emulator.flows.perftest_parameters import DEFAULT_PORT
from emulator.roce.wire.opcodes import Opcode
from tests.guest.image import NoGuest, image_folder
from tests.guest.machine import GID_INDEX, GUEST4, GUEST6, HERE4, HERE6, CaptureIncomplete, Guest

VERBS = ("write", "send", "read", "write-lat", "send-lat")
ROLES = ("connect", "serve")
COMMAND = (sys.executable, "-P", "-m", "emulator")
SIZE_BYTES = 10_001
MESSAGES = {1: 100, 8: 25}
"""Per queue pair, by the number of queue pairs."""
LONGEST_S = 100
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Cell:
    """One test; `role` is that of Charkha."""

    verb: str
    role: str
    ip: int
    path_mtu: int
    queue_pairs: int
    loss_percent: float

    def __str__(self) -> str:
        pairs = f"{self.queue_pairs} QP" + "s" * (self.queue_pairs > 1)
        return f"{self.verb:9} {self.role:7} IPv{self.ip} MTU {self.path_mtu} {pairs:5} loss {self.loss_percent:g} %"

    @property
    def is_latency(self) -> bool:
        """Whether both ends send, one message at a time."""
        return self.verb.endswith("-lat")

    @property
    def messages(self) -> int:
        """Of all queue pairs, in one direction."""
        return self.queue_pairs * MESSAGES[self.queue_pairs]

    @property
    def packets(self) -> int:
        """Packets of those messages."""
        return self.messages * -(-SIZE_BYTES // self.path_mtu)


def cells() -> list[Cell]:
    """The whole matrix."""
    every = itertools.product(VERBS, ROLES, (4, 6), (1024, 4096), (1, 8), (0, 1, 4))
    return [cell for cell in itertools.starmap(Cell, every) if cell.queue_pairs == 1 or not cell.is_latency]


def sample(count: int, seed: int) -> list[Cell]:
    """A part of the matrix in which every value of every axis occurs, if `count` is 12 or more."""
    drawn = random.Random(seed)
    left = drawn.sample(cells(), k=len(cells()))
    chosen: list[Cell] = []
    missing = {(axis, getattr(cell, axis)) for cell in left for axis in Cell.__slots__}
    while len(chosen) < count and left:
        best = max(left, key=lambda cell: len(missing & {(axis, getattr(cell, axis)) for axis in Cell.__slots__}))
        left.remove(best)
        chosen.append(best)
        missing -= {(axis, getattr(best, axis)) for axis in Cell.__slots__}
    return chosen


def play(guest: Guest, cell: Cell) -> list[str]:
    """Run one test; returns what is wrong. A test whose captures lack packets decides nothing and is run again."""
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(CaptureIncomplete):
            return _play(guest, cell)
    return _play(guest, cell)


def _play(guest: Guest, cell: Cell) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        theirs, ours = folder / "guest.pcap", folder / "here.pcap"
        guest.lose(cell.loss_percent)
        with (
            guest.capturing("tap1", theirs, namespace=guest.namespace),
            guest.capturing("gen0", ours, namespace=f"{guest.namespace}-gen"),
        ):
            before, dropped = guest.counters(), guest.port_drops()
            result, text, problems = _run(guest, cell)
            counted = {name: value - before[name] for name, value in guest.counters().items()}
            dropped = guest.port_drops() - dropped
            time.sleep(0.05)  # tcpdump reads what the last reply left in its buffer
        if problems:
            return problems
        return [
            *_counted(cell, result, text),
            *_captured(cell, result, theirs, ours),
            *_counters(counted, dropped, theirs),
        ]


def _run(guest: Guest, cell: Cell) -> tuple[dict[str, Any], str, list[str]]:
    """The results of both ends, and what went wrong."""
    kind = "lat" if cell.is_latency else "bw"
    tool = f"ib_{cell.verb.removesuffix('-lat')}_{kind} -F -x {GID_INDEX[cell.ip]} -m {cell.path_mtu} -s {SIZE_BYTES}"
    tool += f" -n {MESSAGES[cell.queue_pairs]}"
    tool += f" -q {cell.queue_pairs}" if cell.queue_pairs > 1 else ""
    tool += " --ipv6" if cell.ip == 6 else ""
    options: list[object] = ["--verb", cell.verb, "--size", SIZE_BYTES, "--iters", MESSAGES[cell.queue_pairs]]
    options += ["--qps", cell.queue_pairs, "--path-mtu", cell.path_mtu, "--json"]
    if cell.ip == 6:
        options += ["--address", HERE6, "--peer-address", GUEST6]
    words = (
        ["agent", "peer", "connect", GUEST4] if cell.role == "connect" else ["agent", "peer", "serve", "--from", GUEST4]
    )
    command = [*guest.here, *COMMAND, *words, *(str(option) for option in options)]
    with contextlib.ExitStack() as started:

        def start_here() -> subprocess.Popen[str]:
            here = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            started.callback(here.kill)
            return here

        def start_there(command: str) -> subprocess.Popen[str]:
            there = guest.start(command)
            started.callback(_end, there, guest)
            return there

        if cell.role == "connect":
            stock = start_there(tool)
            guest.await_listener(DEFAULT_PORT)
            here = start_here()
        else:
            here = start_here()
            until(lambda: _listens(guest))
            stock = start_there(f"{tool} {HERE4}")
        output, errors = here.communicate(timeout=LONGEST_S)
        text, _ = stock.communicate(timeout=LONGEST_S)
    problems = []
    if here.returncode:
        problems.append(f"Charkha exits with {here.returncode}: {errors.splitlines()[-1:]}")
    if stock.returncode:
        problems.append(f"the stock tool exits with {stock.returncode}: {text.splitlines()[-3:]}")
    return (json.loads(output) if output else {}), text, problems


def _end(stock: subprocess.Popen[str], guest: Guest) -> None:
    """End a command in the machine, and what carries its output, if it has not ended."""
    if stock.poll() is None:
        os.killpg(stock.pid, signal.SIGKILL)
        guest.run("pkill ib_ || true")


def until(condition: Callable[[], bool]) -> None:
    """Wait for an end that is to wait."""
    end = time.monotonic() + LONGEST_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the end that is to wait does not")
        time.sleep(0.05)


def _listens(guest: Guest) -> bool:
    shown = subprocess.run([*guest.here, "ss", "-Hltn", "sport", f"= :{DEFAULT_PORT}"], capture_output=True, check=True)
    return bool(shown.stdout.strip())


# Judging.


def _counted(cell: Cell, result: dict[str, Any], text: str) -> Iterator[str]:
    """Both ends' messages and bytes."""
    directions = ("sent", "received") if cell.is_latency else ("sent",) if cell.role == "connect" else ("received",)
    for direction in directions:
        got = (result[direction]["messages"], result[direction]["payload_bytes"])
        if got != (cell.messages, cell.messages * SIZE_BYTES):
            yield f"{direction}: {got[0]} messages, {got[1]} bytes instead of {cell.messages} of {SIZE_BYTES}"
    row = re.findall(rf"^ {SIZE_BYTES}\s+(\d+)\s", text, re.MULTILINE)
    if row != [str(cell.messages)]:
        yield f"the stock tool reports {row} iterations instead of {cell.messages}"


def _captured(cell: Cell, result: dict[str, Any], theirs: Path, ours: Path) -> Iterator[str]:
    """What the captures say."""
    for file in (theirs, ours):
        yield from unsound(file)
    data = Counter(distinct_data(roce_frames(theirs), read=cell.verb == "read"))
    senders = [HERE4 if cell.ip == 4 else HERE6, GUEST4 if cell.ip == 4 else GUEST6]
    if not cell.is_latency:
        senders = senders[:1] if (cell.role == "connect") is (cell.verb != "read") else senders[1:]
    expected = dict.fromkeys(senders, cell.packets)
    if data != expected:
        yield f"captured at the guest: {dict(data)} different packets with data instead of {expected}"
    sent = sum(1 for one in roce_frames(ours) if one.source in (HERE4, HERE6) and one.opcode in _REQUESTS)
    if sent != result["sent"]["packets"]:
        yield f"{result['sent']['packets']} packets sent, {sent} captured"


def unsound(file: Path) -> Iterator[str]:
    """What the audit, tshark and a CRC of its own find in a capture."""
    report = audit_file(file)
    if report.violations:
        yield f"audit of {file.name}: {report.violations[:3]}"
    if report.superframes or report.notes:
        yield f"audit of {file.name}: {report.superframes} superframes, {report.notes}"
    good = sum(one.flow.icrc_good for one in report.flows)
    frames = list(roce_frames(file))
    agreeing = sum(icrc_is_right(frame) for frame in frames)
    if not good == agreeing == len(frames) == report.roce_frames:
        yield f"{file.name}: of {len(frames)} packets, the audit finds {good} CRCs right, this script {agreeing}"
    # It takes SENDs on connections of rdma_cm for RPC.
    command = ["tshark", "-r", str(file), "--disable-protocol", "rpcordma", "-Y", "_ws.malformed"]
    shown = subprocess.run(command, capture_output=True, check=True, text=True)
    if shown.stdout:
        yield f"tshark: {shown.stdout.splitlines()[0]}"


def _counters(counted: Mapping[str, int], dropped: int, theirs: Path) -> Iterator[str]:
    """What the machine's RDMA device has counted: what was captured at its port less what that dropped behind."""
    by_source = Counter(frame.source for frame in roce_frames(theirs))
    here = by_source[HERE4] + by_source[HERE6]
    shown = {"rcvd_pkts": here - dropped, "sent_pkts": by_source.total() - here}
    if wrong := {name: counted[name] for name, value in shown.items() if counted[name] != value}:
        yield f"captured and not dropped: {shown}; the device counted {wrong}"


@dataclass(frozen=True, slots=True)
class Frame:
    """A RoCEv2 packet from a capture, in the parts that this script needs."""

    network: bytes
    udp: bytes
    source: str

    @property
    def opcode(self) -> int:
        """Of the BTH."""
        return self.udp[8]


_REQUESTS = frozenset(
    int(code) for code in Opcode if code <= Opcode.RC_WRITE_ONLY_IMM or code == Opcode.RC_READ_REQUEST
)


def roce_frames(file: Path) -> Iterator[Frame]:
    """The packets of a pcap file of Ethernet frames with microseconds, as tcpdump writes them."""
    data = file.read_bytes()
    place = 24
    while place < len(data):
        length = struct.unpack_from("<I", data, place + 8)[0]
        frame = data[place + 16 : place + 16 + length]
        place += 16 + length
        packet = frame[14:]
        header = 20 if packet[0] >> 4 == 4 else 40
        total = struct.unpack_from(">H", packet, 2)[0] if header == 20 else 40 + struct.unpack_from(">H", packet, 4)[0]
        source = packet[12:16] if header == 20 else packet[8:24]
        yield Frame(packet[:header], packet[header:total], _text(source))


def _text(address: bytes) -> str:
    if len(address) == 4:
        return ".".join(map(str, address))
    return "fd99::" + f"{address[-1]:x}"


def icrc_is_right(frame: Frame) -> bool:
    """Whether the last four bytes are the CRC-32 of the packet with the fields that change on the way set to ones."""
    network, udp = bytearray(frame.network), bytearray(frame.udp)
    if network[0] >> 4 == 4:
        network[1] = network[8] = network[10] = network[11] = 0xFF
    else:
        network[0] |= 0x0F
        network[1] = network[2] = network[3] = network[7] = 0xFF
    udp[6] = udp[7] = udp[8 + 4] = 0xFF
    return zlib.crc32(bytes(8 * b"\xff") + network + udp[:-4]).to_bytes(4, "little") == udp[-4:]


def distinct_data(frames: Iterator[Frame], *, read: bool) -> Iterator[str]:
    """The source of every packet with payload, once per queue pair and PSN."""
    wanted = range(13, 17) if read else range(12)
    seen: set[tuple[str, bytes, bytes]] = set()
    for frame in frames:
        key = (frame.source, frame.udp[13:16], frame.udp[17:20])
        if frame.opcode in wanted and key not in seen:
            seen.add(key)
            yield frame.source


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the matrix, or a part of it; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, metavar="N", help="draw N cells instead of playing all")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--only", metavar="TEXT", default="", help="cells whose name contains TEXT")
    parser.add_argument("--folder", type=Path, default=image_folder(), help="of the image")
    args = parser.parse_args(arguments)
    chosen = sample(args.cells, args.seed) if args.cells else cells()
    chosen = [cell for cell in chosen if args.only in str(cell)]
    guest = Guest(args.folder)
    failed = 0
    try:
        guest.up()
        for number, cell in enumerate(chosen, start=1):
            began = time.monotonic()
            try:
                problems = play(guest, cell)
            except (TimeoutError, subprocess.TimeoutExpired, AssertionError) as error:
                problems = [f"{type(error).__name__}: {error}"]
            failed += bool(problems)
            took_s = time.monotonic() - began
            print(f"{number:3}/{len(chosen)}  {cell}  {took_s:4.1f} s  {'; '.join(problems) or 'passed'}", flush=True)
    except NoGuest as error:
        print(f"a guest {error}", file=sys.stderr)
        return 3
    finally:
        guest.down()
    print(f"{len(chosen) - failed} of {len(chosen)} passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
