"""An RDMA device as an end of this transport, through libibverbs: one work request per message.

What the device does to packets is its own affair: this process sees completions. pyverbs comes with rdma-core.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import random
import socket
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.annexes.verbs.dialect import MOST_IN_FLIGHT
from agents.annexes.verbs.nic import Gid, ReceiveRing, VerbsQpRecord, hardware_counters
from emulator.control.parameter import Parameter
from emulator.errors import HostError
from emulator.roce.connection.messages import Delivered, Message
from emulator.roce.connection.qp_facts import gid_of
from emulator.roce.constants import PATH_MTUS
from emulator.roce.wire.opcodes import PacketOperation
from emulator.roce.wire.payload import CONSTANT_BYTE

if TYPE_CHECKING:
    from agents.nic.channel import QueuePairOwner
    from emulator.transports.registry import VerbsOptions

RECEIVES = 2 * MOST_IN_FLIGHT
"""Receive requests of a queue pair. A peer that sends more control messages at once gets RNR NAKs and repeats them."""
_COMPLETIONS_PER_POLL = 64
_RNR_TIMER = 12  # 0.64 ms
_FOR_EVER = 7
_HOP_LIMIT = 64


def load_pyverbs() -> Any:
    """The modules of pyverbs.

    Raises:
        HostError: it is not installed; the message names the packages.
    """
    try:
        from pyverbs import addr, cq, device, enums, mr, pd, pyverbs_error, qp, wr
    except ImportError as error:
        raise HostError(
            "the verbs transport needs pyverbs: install Debian's python3-pyverbs and make the virtual environment with "
            f"--system-site-packages, or `pip install pyverbs` ({error})"
        ) from error
    from types import SimpleNamespace

    return SimpleNamespace(
        addr=addr, cq=cq, device=device, enums=enums, mr=mr, pd=pd, errors=pyverbs_error, qp=qp, wr=wr
    )


class RdmaQp:
    """A queue pair of an RDMA device, with a ring in memory of this process."""

    def __init__(self, nic: RdmaNic, owner: QueuePairOwner) -> None:
        self._nic, self._verbs, self.owner = nic, nic.verbs, owner
        enums, qp = self._verbs.enums, self._verbs.qp
        self._in_flight: deque[Message] = deque()
        self.is_closed = False
        with nic.problems("make a queue pair"):
            capacity = qp.QPCap(max_send_wr=MOST_IN_FLIGHT, max_recv_wr=RECEIVES, max_send_sge=1, max_recv_sge=1)
            init = qp.QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=nic.queue, rcq=nic.queue, cap=capacity)
            self._qp = qp.QP(nic.domain, init)
            self._region = self._verbs.mr.MR(
                nic.domain,
                nic.ring.bytes,
                enums.IBV_ACCESS_LOCAL_WRITE | enums.IBV_ACCESS_REMOTE_WRITE,
            )
        self.record = VerbsQpRecord(
            qpn=self._qp.qp_num,
            psn=random.getrandbits(24),
            rkey=self._region.rkey,
            address=self._region.buf,
            slots=nic.ring.slots,
            slot_bytes=nic.ring.slot_bytes,
            path_mtu=nic.path_mtu,
        )

    def connect(self, peer: VerbsQpRecord, host: str) -> None:
        """See Qp."""
        verbs, options, gid = self._verbs, self._nic.options, self._nic.gid
        enums = verbs.enums
        attributes = verbs.qp.QPAttr(port_num=gid.port)
        attributes.qp_access_flags = enums.IBV_ACCESS_LOCAL_WRITE | enums.IBV_ACCESS_REMOTE_WRITE
        attributes.path_mtu = PATH_MTUS.index(self._nic.path_mtu) + enums.IBV_MTU_256
        attributes.dest_qp_num, attributes.rq_psn, attributes.sq_psn = peer.qpn, peer.psn, self.record.psn
        attributes.min_rnr_timer, attributes.rnr_retry = _RNR_TIMER, _FOR_EVER
        attributes.timeout, attributes.retry_cnt = options.qp_timeout, options.retry_count
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
        with self._nic.problems(f"connect a queue pair to {host}"):
            route = verbs.addr.GlobalRoute(
                dgid=verbs.addr.GID(_gid_text(host)),
                sgid_index=gid.index,
                hop_limit=_HOP_LIMIT,
                traffic_class=options.traffic_class,
            )
            attributes.ah_attr = verbs.addr.AHAttr(gr=route, is_global=1, port_num=gid.port)
            self._qp.to_init(attributes)
            for _ in range(RECEIVES):
                self._qp.post_recv(self._nic.receive_request)
            self._qp.to_rts(attributes)

    def post(self, messages: Sequence[Message]) -> None:
        """See Qp."""
        enums, wr = self._verbs.enums, self._verbs.wr
        if self.is_closed:
            return
        try:
            for message in messages:
                request = wr.SendWR(
                    num_sge=1,
                    sg=[self._nic.source(message.size)],
                    opcode=enums.IBV_WR_RDMA_WRITE_WITH_IMM,
                    send_flags=enums.IBV_SEND_SIGNALED,
                    imm_data=socket.htonl(message.imm),
                )
                request.set_wr_rdma(message.rkey, message.address)
                self._qp.post_send(request)
                self._in_flight.append(message)
        except self._verbs.errors.PyverbsError as error:
            self.owner.broke(f"the device rejected a work request: {error}")

    def completed(self, opcode: int, completion: Any, now: int) -> None:
        """Handle a completion without an error."""
        if opcode == self._verbs.enums.IBV_WC_RDMA_WRITE:
            self.owner.completed(0, [self._in_flight.popleft()], now)
            return
        if not self.is_closed:
            self._qp.post_recv(self._nic.receive_request)
        imm = socket.ntohl(completion.imm_data)
        self.owner.delivered(0, Delivered(PacketOperation.WRITE, 0, completion.byte_len, imm), now)

    def close(self) -> None:
        """See Qp."""
        if not self.is_closed:
            self.is_closed = True
            self._nic.forget(self.record.qpn)
            self._qp.close()
            self._region.close()


class RdmaNic:
    """An RDMA device with the address of a rank.

    Args:
        host: numeric IP address.
        gid: where the device has it.
        options: of the transport.
        ring: what every peer gets.

    Raises:
        HostError: pyverbs is not installed, or the device does not do what is needed.
    """

    def __init__(self, host: str, gid: Gid, options: VerbsOptions, ring: ReceiveRing) -> None:
        self.verbs = load_pyverbs()
        self.options, self.ring, self.path_mtu = options, ring, options.path_mtu
        self.host, self.gid = host, gid
        self._loop = asyncio.get_running_loop()
        self._queue_pairs: dict[int, RdmaQp] = {}
        self._is_closed = False
        enums = self.verbs.enums
        with self.problems("open the device"):
            self._context = self.verbs.device.Context(name=self.gid.device)
            active = 128 << self._context.query_port(self.gid.port).active_mtu
            self.domain = self.verbs.pd.PD(self._context)
            before = _event_descriptors()
            self._channel = self.verbs.cq.CompChannel(self._context)
            self._descriptor = _new_channel(before)
            entries = min(self._context.query_device().max_cqe, 1 << 14)
            self.queue = self.verbs.cq.CQ(self._context, entries, None, self._channel, 0)
            self._payload = self.verbs.mr.MR(self.domain, ring.slot_bytes, enums.IBV_ACCESS_LOCAL_WRITE)
            self._payload.write(bytes([CONSTANT_BYTE]) * ring.slot_bytes, ring.slot_bytes)
            element = self.verbs.wr.SGE(self._payload.buf, 1, self._payload.lkey)  # never written to: pyverbs wants one
            self.receive_request = self.verbs.wr.RecvWR(num_sge=1, sg=[element])
            self.queue.req_notify()
        if active < options.path_mtu:
            raise HostError(
                f"{self.gid.device} has an active path MTU of {active}: --path-mtu {options.path_mtu} needs links of "
                "a larger MTU"
            )
        self._sources: dict[int, Any] = {}
        self._counted = hardware_counters(self.gid)
        self._loop.add_reader(self._descriptor, self._on_event)

    def problems(self, task: str) -> Any:
        """A context manager that turns errors of the device into errors of this host."""
        return _Problems(self.verbs, self.gid.device, task)

    def source(self, size: int) -> Any:
        """The scatter/gather element of a message with that much payload."""
        if size not in self._sources:
            if len(self._sources) >= _COMPLETIONS_PER_POLL:
                self._sources.clear()
            self._sources[size] = self.verbs.wr.SGE(self._payload.buf, size, self._payload.lkey)
        return self._sources[size]

    def create(self, owner: QueuePairOwner) -> RdmaQp:
        """See Nic."""
        made = RdmaQp(self, owner)
        self._queue_pairs[made.record.qpn] = made
        return made

    def forget(self, qpn: int) -> None:
        """A queue pair is closed."""
        self._queue_pairs.pop(qpn, None)

    def _on_event(self) -> None:
        if self._is_closed:
            return
        self._channel.get_cq_event(self.queue)
        self.queue.ack_events(1)
        self.queue.req_notify()
        self.poll()

    def poll(self) -> None:
        """See Nic."""
        enums = self.verbs.enums
        while not self._is_closed:
            count, completions = self.queue.poll(_COMPLETIONS_PER_POLL)
            now = time.monotonic_ns()
            for completion in completions:
                pair = self._queue_pairs.get(completion.qp_num)
                if pair is None:
                    continue
                if completion.status == enums.IBV_WC_SUCCESS:
                    pair.completed(completion.opcode, completion, now)
                elif completion.status != enums.IBV_WC_WR_FLUSH_ERR:
                    pair.owner.broke(_problem(self.verbs, completion.status))
            if count < _COMPLETIONS_PER_POLL:
                return

    def facts(self) -> Mapping[str, Parameter]:
        """See Nic."""
        device = self.gid.device
        counted = hardware_counters(self.gid)
        return {
            "device": Parameter(device),
            "gid_index": Parameter(self.gid.index),
            "observed": Parameter("completion queue"),
            **{f"{device}.{name}": Parameter(value - self._counted.get(name, 0)) for name, value in counted.items()},
        }

    def close(self) -> None:
        """See Nic."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._descriptor)
        for pair in list(self._queue_pairs.values()):
            pair.close()
        for thing in (self._payload, self.queue, self._channel, self.domain, self._context):
            thing.close()


class _Problems:
    def __init__(self, verbs: Any, device: str, task: str) -> None:
        self._verbs, self._device, self._task = verbs, device, task

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._verbs.errors.PyverbsError):
            raise HostError(f"{self._device}: cannot {self._task}: {error}") from error


def _problem(verbs: Any, status: int) -> str:
    """A completion's error, in words."""
    enums = verbs.enums
    words: dict[int, str] = {
        enums.IBV_WC_RETRY_EXC_ERR: "it does not answer: retries are exhausted",
        enums.IBV_WC_RNR_RETRY_EXC_ERR: "it had no receive request: retries are exhausted",
        enums.IBV_WC_REM_ACCESS_ERR: "it refused access to its memory",
        enums.IBV_WC_REM_INV_REQ_ERR: "it refused a request as invalid",
        enums.IBV_WC_REM_OP_ERR: "it could not execute a request",
        enums.IBV_WC_LOC_PROT_ERR: "the device may not access memory of this process",
    }
    return words.get(status, f"the device reports an error: {verbs.cq.cqe_status_to_str(status)}")


def _gid_text(host: str) -> str:
    """The GID of an address as pyverbs reads it: eight groups."""
    return ipaddress.IPv6Address(gid_of(host)).exploded


def _event_descriptors() -> set[int]:
    """The descriptors of this process from which events of RDMA devices are read."""
    found = set()
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of the listing itself is closed by now
            if "infinibandevent" in str(file.readlink()):
                found.add(int(file.name))
    return found


def _new_channel(before: set[int]) -> int:
    """The descriptor of a completion channel just made: pyverbs does not tell it, and its own wait holds the GIL."""
    new = _event_descriptors() - before
    if len(new) != 1:
        raise HostError("cannot find the descriptor of a completion channel below /proc/self/fd")
    return new.pop()
