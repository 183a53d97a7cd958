"""How two ranks agree on a queue pair: over TCP, a JSON record a line.

    connecting end: Request (its end of the queue pair)
    accepting end:  Reply (its end), once it receives on the queue pair
    connecting end: Ready, once it receives as well

The connection stays open as long as the queue pair is used: its end is how a peer that closes is noticed.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec

from agents.transports.verbs.nic import VerbsQpRecord
from emulator.errors import RemoteProtocolError

VERSION = 1
_LONGEST_LINE = 4096


class VerbsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="request"):
    """The connecting end.

    Attributes:
        version: of this exchange.
        run: digest of the run.
        rank, peer: who asks, and whom.
        end: of the queue pair.
    """

    version: int
    run: str
    rank: int
    peer: int
    end: VerbsQpRecord


class VerbsReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="reply"):
    """The accepting end."""

    end: VerbsQpRecord


class VerbsReady(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="ready"):
    """The connecting end receives."""


T = TypeVar("T", VerbsRequest, VerbsReply, VerbsReady)


def send(writer: asyncio.StreamWriter, record: VerbsRequest | VerbsReply | VerbsReady) -> None:
    """Send a record."""
    writer.write(msgspec.json.encode(record) + b"\n")


async def receive(reader: asyncio.StreamReader, kind: type[T]) -> T:
    """Receive a record.

    Raises:
        RemoteProtocolError: the peer closed the connection, or sent something else.
    """
    try:
        line = await reader.readuntil(b"\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
        raise RemoteProtocolError(
            "it closed the connection before a queue pair was agreed: does it belong to a different version or run?"
        ) from error
    try:
        return msgspec.json.decode(line[:_LONGEST_LINE], type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise RemoteProtocolError(f"it did not send a {kind.__name__.lower()} for a queue pair: {error}") from error
