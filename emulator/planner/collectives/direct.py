"""Direct exchange: every member sends to all others in one step."""

from __future__ import annotations

from emulator.planner.collectives.blocks import Blocks
from emulator.planner.schedule import Lane, Step, Transfer


def direct_gather(blocks: Blocks, *, member: int) -> Lane:
    """One step: send the own block to all others and receive theirs."""
    own, theirs = _own_and_theirs(blocks, member)
    yield Step(own, theirs)


def direct_scatter(blocks: Blocks, *, member: int) -> Lane:
    """One step: send every other member its block, and reduce the own block from all."""
    own, theirs = _own_and_theirs(blocks, member)
    yield Step(theirs, own, True)


def _own_and_theirs(blocks: Blocks, member: int) -> tuple[list[Transfer], list[Transfer]]:
    # Every member starts with its successor, so that not all start with member 0.
    others = [*range(member + 1, blocks.parts), *range(member)]
    offset, size = blocks.locate(member)
    own = [Transfer(peer, offset, size) for peer in others] if size else []
    theirs = [Transfer(peer, start, length) for peer in others for start, length in (blocks.locate(peer),) if length]
    return own, theirs
