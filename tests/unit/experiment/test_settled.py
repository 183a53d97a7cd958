"""What is settled before any traffic, and refused if it cannot be."""

import pytest

from emulator.controller.assignment import Assignment
from emulator.errors import HostError
from emulator.experiment.settle.settled import CONNECTION_BYTES, Identity, require_memory
from emulator.planner.traffic.operation import Traffic, traffic_of_collective
from emulator.trace.meaning.model import CommKind

RANKS = 512
ENDS_HERE = RANKS // 2 * (RANKS - 1)
HALVES = Assignment({"agent-0": range(RANKS // 2), "west": range(RANKS // 2, RANKS)}, frozenset({"agent-0"}))


def test_runs_of_the_same_moment_have_different_ids() -> None:
    one, other = Identity.new(["charkha"]), Identity.new(["charkha"])
    assert one.run_id != other.run_id
    assert one.command_line == ("charkha",)


def traffic(algorithm: str) -> Traffic:
    overrides = {"all_reduce": algorithm}
    return traffic_of_collective(
        CommKind.ALL_REDUCE, ranks=RANKS, size_bytes=RANKS, group_size=RANKS, overrides=overrides
    )


def test_connections_of_all_with_all_need_memory_for_the_ranks_of_this_host() -> None:
    needed = ENDS_HERE * CONNECTION_BYTES
    require_memory(traffic("direct"), HALVES, free_bytes=needed)
    with pytest.raises(HostError, match=rf"among 512 ranks by algorithm direct .* {ENDS_HERE:,} ends .* Play fewer"):
        require_memory(traffic("direct"), HALVES, free_bytes=needed - 1)


def test_few_peers_and_unknown_memory_are_not_refused() -> None:
    require_memory(traffic("ring"), HALVES, free_bytes=1)
    require_memory(traffic("direct"), HALVES, free_bytes=None)
