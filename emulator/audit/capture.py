"""Frames of a capture file: pcap or pcapng, plain or gzip."""

from __future__ import annotations

import gzip
import logging
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from emulator.audit.link import CapturedFrame
from emulator.errors import HostError, InputError
from emulator.units import NS_PER_S

_GZIP = b"\x1f\x8b"
_PCAP_MAGICS = tuple(map(bytes.fromhex, ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1")))
_PCAPNG_MAGIC = bytes.fromhex("0a0d0d0a")
_LINK_TYPE_BITS = 0xFFFF  # the upper bits describe the frame check sequence
_LARGEST_FRAME = 1 << 18  # super-frames with their link-layer header are longer than 65,535 bytes


class Capture:
    """The frames of a capture file, in its order.

    `notes` is complete once the iteration has ended: it reports a file that ends in the middle of a record.

    Raises:
        InputError: the file cannot be read, or is not a capture; raised while iterating.
        HostError: scapy is not installed; raised while iterating.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[CapturedFrame]:
        try:
            with self._path.open("rb") as file:
                yield from self._frames(file)
        except OSError as error:
            raise InputError(f"{self._path}: {error.strerror or error}") from error

    def _frames(self, file: IO[bytes]) -> Iterator[CapturedFrame]:
        is_compressed = file.read(2) == _GZIP
        file.seek(0)
        stream = _Watched(gzip.GzipFile(fileobj=file) if is_compressed else file)
        number = 0
        with _Warnings() as warnings:
            reader = _open(self._path, stream)
            try:
                while True:
                    record = _read(reader, number=number + 1)
                    number += 1
                    yield record
            except EOFError as error:
                problem = stream.problem or str(error) or next(iter(warnings.messages), "")
        if problem:
            self.notes.append(f"the file is damaged or ends early after frame {number}: {problem}")


class _Watched:
    """A stream that remembers whether it ended within a read, which scapy does not always report."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile) -> None:
        self._stream = stream
        self.problem = ""

    def read(self, size: int) -> bytes:
        try:
            data = self._stream.read(size)
        except (EOFError, OSError, zlib.error) as error:
            self.problem = str(error)
            return b""
        if 0 < len(data) < size:
            self.problem = f"{size - len(data)} bytes are missing"
        return data


class _Warnings(logging.Handler):
    """Keeps the warnings that scapy would print."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []
        self._logger = logging.getLogger("scapy.runtime")

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    def __enter__(self) -> _Warnings:
        self._propagated, self._logger.propagate = self._logger.propagate, False
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagated


def _open(path: Path, stream: _Watched) -> Any:
    """The scapy reader for this file."""
    try:
        from scapy.error import Scapy_Exception
        from scapy.utils import RawPcapNgReader, RawPcapReader
    except ImportError as error:
        raise HostError("reading captures needs scapy: pip install 'charkha[audit]'") from error

    class Sections(RawPcapNgReader):
        """A reader that begins a new list of interfaces in every section, as the format requires."""

        def _read_block_shb(self) -> None:
            super()._read_block_shb()
            self.interfaces = []

    magic = stream.read(4)
    if magic not in _PCAP_MAGICS and magic != _PCAPNG_MAGIC:
        raise InputError(f"{path}: {stream.problem or 'neither pcap nor pcapng'}")
    kind = Sections if magic == _PCAPNG_MAGIC else RawPcapReader
    try:
        # Calling the class would open the file again to guess its format, which is known here.
        return type.__call__(kind, str(path), stream, magic)
    except (Scapy_Exception, EOFError, struct.error) as error:
        raise InputError(f"{path}: the header of the file is damaged or incomplete") from error


def _read(reader: Any, *, number: int) -> CapturedFrame:
    """The next frame.

    Raises:
        EOFError: there are no more; the text gives the reason if this is not the regular end of the file.
    """
    try:
        # The iterator of scapy truncates super-frames at 65,535 bytes.
        data, facts = reader._read_packet(size=_LARGEST_FRAME)
    except (ValueError, struct.error, ArithmeticError, LookupError) as error:
        raise EOFError(f"unreadable record ({error})") from error
    if hasattr(facts, "tsresol"):
        return CapturedFrame(number, _ng_time_ns(facts), facts.linktype & _LINK_TYPE_BITS, data)
    if len(data) < facts.caplen:
        raise EOFError(f"{facts.caplen - len(data)} bytes of the record are missing")
    time_ns = facts.sec * NS_PER_S + facts.usec * (1 if reader.nano else 1000)
    return CapturedFrame(number, time_ns, reader.linktype & _LINK_TYPE_BITS, data)


def _ng_time_ns(facts: Any) -> int | None:
    if facts.tshigh is None:
        return None
    return int((facts.tshigh << 32 | facts.tslow) * NS_PER_S // facts.tsresol)
