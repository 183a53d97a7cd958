"""Chunks pipelined up or down a tree, so that every edge is busy: receive chunk t while sending chunk t - 1."""

from __future__ import annotations

from emulator.planner.collectives.blocks import Blocks
from emulator.planner.collectives.trees import Place
from emulator.planner.schedule import Lane, Step, Transfer

CHUNK_BYTES = 128 << 10
MOST_CHUNKS = 128
"""Filling a pipeline of depth d takes d / MOST_CHUNKS of the transfer time; more chunks would only add steps."""


def in_chunks(size_bytes: int, *, start: int = 0) -> Blocks:
    """`size_bytes` (at least 1) cut into chunks of about CHUNK_BYTES, at most MOST_CHUNKS of them."""
    return Blocks(size_bytes, min(MOST_CHUNKS, -(-size_bytes // CHUNK_BYTES)), start=start)


def flow_up(place: Place, chunks: Blocks) -> Lane:
    """Reduce towards the root; at most chunks + 1 steps."""
    sends: tuple[Transfer, ...] = ()
    for index in range(chunks.parts):
        offset, size = chunks.locate(index)
        if place.children:
            yield Step(sends, tuple([Transfer(child, offset, size) for child in place.children]), True)
        elif sends:
            yield Step(sends)
        sends = () if place.parent is None else (Transfer(place.parent, offset, size),)
    if sends:
        yield Step(sends)


def flow_down(place: Place, chunks: Blocks) -> Lane:
    """Copy from the root; at most chunks + 1 steps."""
    sends: tuple[Transfer, ...] = ()
    for index in range(chunks.parts):
        offset, size = chunks.locate(index)
        if place.parent is not None:
            yield Step(sends, (Transfer(place.parent, offset, size),))
        elif sends:
            yield Step(sends)
        sends = tuple([Transfer(child, offset, size) for child in place.children])
    if sends:
        yield Step(sends)
