"""From the recorded calls of all ranks to an imported trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from emulator.errors import TraceError
from emulator.importers.alignment import Calls, LossesOfRanks
from emulator.importers.losses import Fate, Losses
from emulator.importers.model import ImportedRank, ImportedTrace
from emulator.importers.recorded_calls import issue_nodes


def assemble(
    path: Path,
    calls: Calls,
    *,
    source_format: str,
    mode: str,
    world_size: int,
    files: Mapping[int, Sequence[str]],
    losses: Losses,
    losses_of: LossesOfRanks,
    on_rank: Callable[[int, int], None] | None,
) -> ImportedTrace:
    """The trace of a job whose calls have been aligned.

    Args:
        path: as the user named it.
        source_format: name of the importer.
        mode: what the ranks were read from, for the report.
        files: of each rank.
        losses: what was counted so far of the whole source.
        losses_of: what was counted so far of each rank.
        on_rank: called with (ranks done, ranks in all).

    Raises:
        TraceError: no call is left, or times are more than a year apart.
    """
    ranks = []
    for number, rank in enumerate(sorted(calls), 1):
        own = losses_of[rank]
        for call in calls[rank]:
            own.count(Fate.MAPPED, call.operation.kind.label)
        nodes = issue_nodes(calls[rank], own)
        ranks.append(ImportedRank(rank, files[rank], mode, world_size, {}, nodes, own))
        losses.add(own)
        if on_rank is not None:
            on_rank(number, len(calls))
    if not any(one.nodes for one in ranks):
        raise TraceError("no call is in the records of all ranks: there is nothing to play", path=path)
    missing = [rank for rank in range(world_size) if rank not in calls]
    return ImportedTrace(path, source_format, ranks, missing, losses)
