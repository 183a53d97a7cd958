from emulator.trace.analysis.identity import OperationPlace, places, used_groups
from emulator.trace.meaning.workload import build_workload
from tests.support.traces import coll, rank_trace, recv, send


def test_groups_of_the_same_ranks_are_told_apart_by_their_first_use() -> None:
    def nodes(peer: int) -> list:
        message = send(4, 1) if peer else recv(4, 0)
        return [
            coll(1, "barrier", 0, pg="b", group_ranks=(0, 1)),
            coll(2, "barrier", 0, pg="a", group_ranks=(0, 1)),
            message,
        ]

    workload = build_workload([rank_trace(0, nodes(1)), rank_trace(1, nodes(0))])
    assert sorted(places(workload).values()) == [
        OperationPlace((0, 1), 0, 0, is_message=False),
        OperationPlace((0, 1), 0, 0, is_message=True),
        OperationPlace((0, 1), 1, 0, is_message=False),
    ]
    assert used_groups(workload) == {(0, 1): 2}


def test_places_in_words() -> None:
    assert str(OperationPlace((0, 1, 2), 0, 4, is_message=False)) == "collective 5 of ranks 0-2"
    assert str(OperationPlace((0, 1), 1, 0, is_message=False)) == "collective 1 of ranks 0-1 (group 2 of those)"
    assert str(OperationPlace((3, 1), 0, 0, is_message=True)) == "message 1 from rank 3 to 1"
