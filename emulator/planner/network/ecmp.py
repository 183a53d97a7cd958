"""ECMP hashes: which of several equal-cost next hops a flow takes, as in Linux or by a generic hash.

Linux (`fib_multipath_hash_policy` 1, `fib_multipath_hash_seed`) chooses by a SipHash-2-4 over the kernel's flow keys.
The order of bytes is that of a little-endian machine with Linux 6.11 or later; a test compares with the running kernel.

Source: Aumasson & Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from emulator.roce.constants import UDP_PORT
from emulator.topology.model import Topology
from emulator.trace.meaning.model import IntArray

HashArray: TypeAlias = npt.NDArray[np.uint64]
SourcePorts: TypeAlias = Callable[[IntArray, IntArray], IntArray]
"""(senders, receivers), world ranks → UDP source port of each flow."""

ROUTER = "router"
_UDP = 17
_SOURCE_PORTS = 1 << 14
_FIRST_SOURCE_PORT = 0xC000
_FIRST_QPN, _QPNS_PER_PEER = 16, 2
_SEED_STEP, _SEED_BITS = 2_654_435_761, 32
_SIPHASH_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_KEY_BYTES = 48
"""Length of the kernel's flow keys with IPv4 addresses, from the protocol to the addresses."""


class FlowHash(Protocol):
    """Chooses next hops for whole flows.

    Attributes:
        name: `linux` or `own`, as in JSON output.
    """

    name: str

    def tuples(self, senders: IntArray, receivers: IntArray) -> HashArray:
        """The fields of each flow that are hashed, shape (flows, …)."""
        ...

    def choose(self, tuples: HashArray, switches: IntArray, counts: IntArray) -> IntArray:
        """The choice of each flow at its switch, 0 … counts - 1."""
        ...


class GenericHash:
    """A fast hash for any number of flows. It collides about as often as that of a switch, for other flows.

    Args:
        addresses: IP address of each rank.
        seed: seed of the hash, and of the source ports of flows.
    """

    name = "own"

    def __init__(self, addresses: Sequence[str], *, switches: int, seed: int) -> None:
        numbers = (int(ip_address(address)) for address in addresses)
        folded = np.array([(number ^ number >> 64) & 0xFFFF_FFFF_FFFF_FFFF for number in numbers], dtype=np.uint64)
        self._seed = np.uint64(seed)
        self._source = _mix(folded)
        self._target = _mix(self._source)
        self._switch = _mix(np.arange(switches, dtype=np.uint64) + self._seed)

    def tuples(self, senders: IntArray, receivers: IntArray) -> HashArray:
        """See FlowHash: shape (flows,)."""
        pair = senders.view(np.uint64) << np.uint64(32) | receivers.view(np.uint64)
        ports = _mix(pair ^ self._seed) % np.uint64(_SOURCE_PORTS) + np.uint64(_FIRST_SOURCE_PORT)
        kind = np.uint64(_UDP << 16 | UDP_PORT)
        return self._source[senders] + self._target[receivers] ^ (ports << np.uint64(32) | kind)

    def choose(self, tuples: HashArray, switches: IntArray, counts: IntArray) -> IntArray:
        """See FlowHash."""
        return (_mix(tuples ^ self._switch[switches]) % counts.view(np.uint64)).view(np.int64)


class LinuxHash:
    """The hash of Linux routers, for IPv4.

    Args:
        addresses: IPv4 address of each rank.
        seeds: `fib_multipath_hash_seed` of each switch.
        source_ports: returns the source ports of flows.
    """

    name = "linux"

    def __init__(self, addresses: Sequence[str], *, seeds: Sequence[int], source_ports: SourcePorts) -> None:
        packed = b"".join(ip_address(address).packed for address in addresses)
        self._address = np.frombuffer(packed, dtype="<u4").astype(np.uint64)
        self._source_ports = source_ports
        seed = np.array(seeds, dtype=np.uint64)
        key = seed << np.uint64(32) | seed
        self._start = _SipHash([key ^ np.uint64(word) for word in _SIPHASH_START])
        for word in (_UDP << 16, 0, 0):  # protocol; no labels, no VLANs
            self._start.take(np.full(len(seed), word, dtype=np.uint64))

    def tuples(self, senders: IntArray, receivers: IntArray) -> HashArray:
        """See FlowHash: the 64-bit words that differ between flows, shape (flows, 3).

        The kernel sorts each pair of addresses and ports, so both directions of a flow have equal words.
        """
        source, target = self._address[senders], self._address[receivers]
        ours = self._source_ports(senders, receivers).astype(">u2").view("<u2").astype(np.uint64)
        theirs = np.full(1, UDP_PORT, dtype=">u2").view("<u2").astype(np.uint64)
        ports = np.minimum(ours, theirs) | np.maximum(ours, theirs) << np.uint64(16)
        shift = np.uint64(32)
        return np.stack([ports << shift, np.minimum(source, target) << shift, np.maximum(source, target)], axis=-1)

    def choose(self, tuples: HashArray, switches: IntArray, counts: IntArray) -> IntArray:
        """See FlowHash."""
        chosen = np.zeros(len(counts), dtype=np.int64)
        several = np.flatnonzero(counts > 1)
        state = _SipHash([part[switches[several]] for part in self._start.state])
        for word in tuples[several].T:
            state.take(word)
        hashes = (np.maximum(state.digest(_KEY_BYTES) & np.uint64(0xFFFF_FFFF), np.uint64(1)) >> np.uint64(1)).view(
            np.int64
        )
        chosen[several] = _next_hop(hashes, counts[several])
        return chosen


class _SipHash:
    """SipHash-2-4 of many messages at once.

    Attributes:
        state: the four words of state of each message.
    """

    def __init__(self, state: list[HashArray]) -> None:
        self.state = state

    def take(self, word: HashArray) -> None:
        """Add the next eight bytes of each message, as little-endian numbers."""
        self.state[3] = self.state[3] ^ word
        self._rounds(2)
        self.state[0] = self.state[0] ^ word

    def digest(self, length: int) -> HashArray:
        """The hashes, for messages of that many bytes, a multiple of 8."""
        self.take(np.full(len(self.state[0]), (length & 0xFF) << 56, dtype=np.uint64))
        self.state[2] = self.state[2] ^ np.uint64(0xFF)
        self._rounds(4)
        one, two, three, four = self.state
        return one ^ two ^ three ^ four

    def _rounds(self, count: int) -> None:
        v0, v1, v2, v3 = self.state
        for _ in range(count):
            v0 = v0 + v1
            v2 = v2 + v3
            v1 = _rotated(v1, 13) ^ v0
            v3 = _rotated(v3, 16) ^ v2
            v0 = _rotated(v0, 32) + v3
            v2 = v2 + v1
            v3 = _rotated(v3, 21) ^ v0
            v1 = _rotated(v1, 17) ^ v2
            v2 = _rotated(v2, 32)
        self.state = [v0, v1, v2, v3]


def hash_seed(ecmp_seed: int, router: int) -> int:
    """`fib_multipath_hash_seed` of a router, different for each; never 0, which the kernel takes as random."""
    return ((ecmp_seed + router + 1) * _SEED_STEP) % (1 << _SEED_BITS) or 1


def linux_hash(topology: Topology, *, seed: int, source_ports: SourcePorts) -> LinuxHash | None:
    """The hash of the routers of a lab; None if not all switches are routers, or addresses are IPv6."""
    switches = topology.network.switches
    if topology.is_ipv6 or any(switch.kind != ROUTER for switch in switches):
        return None
    seeds = [hash_seed(seed, number) for number in range(len(switches))]
    return LinuxHash(topology.addresses, seeds=seeds, source_ports=source_ports)


def roce_source_ports(policy: str, *, qps: int) -> SourcePorts | None:
    """Source ports of the RoCE transport; None if a flow has several, or they are chosen at random during a run."""
    if policy == "fixed":
        return lambda senders, receivers: np.full(len(senders), _FIRST_SOURCE_PORT, dtype=np.int64)
    return _folded_ports if policy == "fold" and qps == 1 else None


def spray_hashes(topology: Topology, *, values: int, seed: int) -> Sequence[FlowHash]:
    """The hash of each entropy value of sprayed flows, whose source ports are 49152 and those that follow."""

    def at(value: int) -> FlowHash:
        port = _FIRST_SOURCE_PORT + value
        known = linux_hash(topology, seed=seed, source_ports=lambda one, other: np.full(len(one), port, dtype=np.int64))
        return known or GenericHash(topology.addresses, switches=len(topology.network.switches), seed=seed + value)

    return [at(value) for value in range(values)]


def _folded_ports(senders: IntArray, receivers: IntArray) -> IntArray:
    product = _payload_qpn(senders) * _payload_qpn(receivers)
    product ^= product >> 20
    product ^= product >> 40
    label = product & 0xF_FFFF
    ports: IntArray = _FIRST_SOURCE_PORT | (label & 0x3FFF ^ label >> 14)
    return ports


def _payload_qpn(peers: IntArray) -> IntArray:
    qpn: IntArray = _FIRST_QPN + peers * _QPNS_PER_PEER + 1
    return qpn


def _next_hop(hashes: IntArray, counts: IntArray) -> IntArray:
    """Each of `counts` next hops has an equal range of 31-bit hashes; ends are rounded to the nearest integer."""

    def end(number: IntArray) -> IntArray:
        ends: IntArray = ((number + 1 << 31) + counts // 2) // counts
        return ends

    near = hashes * counts >> 31
    near += hashes >= end(near)
    near -= (near > 0) & (hashes < end(near - 1))
    return near


def _rotated(values: HashArray, bits: int) -> HashArray:
    return values << np.uint64(bits) | values >> np.uint64(64 - bits)


def _mix(values: HashArray) -> HashArray:
    """A bijection of 64 bits in which every input bit changes half of the output bits.

    Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (variant 13 of Stafford).
    """
    values = values + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values ^= values >> np.uint64(shift)
        values *= np.uint64(factor)
    values ^= values >> np.uint64(31)
    return values
