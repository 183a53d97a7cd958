"""World ranks from what processes say of themselves in communicators."""

import pytest

from emulator.annexes.importers.communicators import Membership, find_world, natural_order
from emulator.annexes.importers.model import Fate, Losses
from emulator.errors import TraceError


def member(pid: int, communicator: str, rank: int, size: int, *, host: str = "node1") -> Membership:
    return Membership((host, pid), communicator, rank, size, f"line {pid}")


def test_the_world_is_the_largest_communicator() -> None:
    pairs = [member(pid, f"pair{pid // 2}", pid % 2, 2) for pid in range(4)]
    world = find_world([*pairs, *(member(pid, "all", 3 - pid, 4) for pid in range(4))], Losses())
    assert world.size == 4
    assert world.rank_of["node1", 0] == 3
    assert world.ranks_of == {"all": (), "pair0": (3, 2), "pair1": (1, 0)}


def test_another_communicator_of_all_ranks_in_another_order_has_its_own_order() -> None:
    both = [member(pid, "all", pid, 2) for pid in range(2)] + [member(pid, "turned", 1 - pid, 2) for pid in range(2)]
    assert find_world(both, Losses()).ranks_of == {"all": (), "turned": (1, 0)}


def test_without_a_world_processes_are_counted_in_natural_order() -> None:
    losses = Losses()
    members = [member(1, "a", 0, 2, host="node10"), member(1, "a", 1, 2, host="node2"), member(7, "b", 0, 1)]
    world = find_world(members, losses)
    assert dict(world.rank_of) == {("node1", 7): 0, ("node2", 1): 1, ("node10", 1): 2}
    assert losses.number(Fate.GUESSED) == 3
    assert natural_order(("node2", 1)) < natural_order(("node10", 1))


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([member(0, "all", 2, 2)], "says that it is rank 2 of 2 ranks"),
        ([member(0, "all", 0, 2), member(1, "all", 0, 2)], "is also another process"),
        ([member(0, "all", 0, 2), member(1, "all", 1, 3)], "its communicator has 3 ranks; it had 2"),
        (
            [member(pid, "all", pid, 3) for pid in range(3)] + [member(0, "part", 0, 2)],
            "is in a communicator of 2 ranks; 1 of them are in the files: add the others",
        ),
    ],
)
def test_contradictions_are_refused(members: list[Membership], said: str) -> None:
    with pytest.raises(TraceError, match=said):
        find_world(members, Losses())
