"""Memory regions that a peer may access: range, key, rights, and the bytes if there are any.

Source: InfiniBand Architecture Specification, volume 1, sections 9.7.4 (what a responder checks) and 10.6 (regions).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Flag, auto

from emulator.roce.constants import LARGEST_MESSAGE_BYTES
from emulator.roce.wire.headers import Buffer

ATOMIC_BYTES = 8
_WORD = struct.Struct("=Q")  # atomics act in the byte order of the responder's host
_WORD_MASK = (1 << 64) - 1


class Access(Flag):
    """Rights of a peer."""

    WRITE = auto()
    READ = auto()
    ATOMIC = auto()
    ALL = WRITE | READ | ATOMIC


@dataclass(slots=True, eq=False, kw_only=True)
class MemoryRegion:
    """A range of addresses under one key.

    Attributes:
        rkey: its key.
        address: of the first byte.
        length: bytes.
        access: rights of the peer.
        content: its bytes; None: what is written is discarded, and READs return the payload of the queue pair.
    """

    rkey: int
    address: int
    length: int
    access: Access = Access.ALL
    content: bytearray | None = None
    _words: dict[int, int] = field(default_factory=dict)  # targets of atomics in a region without content

    def allows(self, address: int, length: int, access: Access) -> bool:
        """Whether the peer may access `length` bytes from `address` on."""
        start = address - self.address
        return access in self.access and start >= 0 and start + length <= self.length

    def write(self, address: int, data: Buffer) -> None:
        """Store bytes, if the region keeps any."""
        if self.content is not None:
            start = address - self.address
            self.content[start : start + len(data)] = data

    def read(self, address: int, length: int) -> bytes | None:
        """Bytes of the region; None if it keeps none."""
        start = address - self.address
        return None if self.content is None else bytes(self.content[start : start + length])

    def fetch_add(self, address: int, addend: int) -> int:
        """Add to a word, modulo 2^64; returns what it was."""
        original = self._word(address)
        self._set_word(address, original + addend & _WORD_MASK)
        return original

    def compare_swap(self, address: int, compare: int, swap: int) -> int:
        """Set a word if it has the value `compare`; returns what it was."""
        original = self._word(address)
        if original == compare:
            self._set_word(address, swap)
        return original

    def _word(self, address: int) -> int:
        if self.content is None:
            return self._words.get(address, 0)
        word: int = _WORD.unpack_from(self.content, address - self.address)[0]
        return word

    def _set_word(self, address: int, value: int) -> None:
        if self.content is None:
            self._words[address] = value
        else:
            _WORD.pack_into(self.content, address - self.address, value)


class Memory:
    """The regions that a queue pair honours."""

    def __init__(self, regions: Iterable[MemoryRegion]) -> None:
        self._regions = {region.rkey: region for region in regions}

    def region(self, rkey: int, address: int, length: int, access: Access) -> MemoryRegion | None:
        """The region with a key, if it allows an access."""
        region = self._regions.get(rkey)
        return region if region is not None and region.allows(address, length, access) else None


EVERYTHING = Memory(
    [MemoryRegion(rkey=0, address=0, length=(1 << 64) + LARGEST_MESSAGE_BYTES, access=Access.WRITE | Access.READ)]
)
"""All addresses, under key 0, for peers whose addresses are tags: a message may begin at the last one."""
