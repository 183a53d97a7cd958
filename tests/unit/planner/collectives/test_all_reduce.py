"""Closed forms of all-reduce: bytes and steps of every algorithm, as docs/collectives.md states them."""

import pytest

from emulator.planner.collectives.patterns import CHUNK_BYTES, two_trees
from emulator.planner.schedule import BARRIER_BYTES, Step, Transfer
from emulator.trace.meaning.model import CommKind
from tests.support.schedules import bytes_per_member, lanes_by_member, moved, view

POWERS, OTHERS = [2, 4, 8, 16], [3, 5, 6, 7, 12]


def schedules(name: str, members: int, size_bytes: int) -> list[list[list[Step]]]:
    return lanes_by_member(name, CommKind.ALL_REDUCE, members, size_bytes)


def expected_bytes(name: str, members: int, size_bytes: int) -> list[tuple[int, int]]:
    return [bytes_per_member(name, view(CommKind.ALL_REDUCE, members, member, size_bytes)) for member in range(members)]


@pytest.mark.parametrize("name", ["ring", "bidirectional_ring", "direct"])
@pytest.mark.parametrize("members", POWERS + OTHERS)
def test_bandwidth_optimal_algorithms_move_two_times_all_but_a_share(name: str, members: int) -> None:
    size = 2 * members * 100
    least = 2 * size * (members - 1) // members
    assert [moved(lanes) for lanes in schedules(name, members, size)] == [(least, least)] * members
    assert expected_bytes(name, members, size) == [(least, least)] * members


@pytest.mark.parametrize("members", [2, 3, 5, 8])
def test_a_ring_talks_to_its_two_neighbours_alone(members: int) -> None:
    for member, lanes in enumerate(schedules("ring", members, members * 10)):
        assert {send.peer for lane in lanes for step in lane for send in step.sends} == {(member + 1) % members}
        assert {recv.peer for lane in lanes for step in lane for recv in step.recvs} == {(member - 1) % members}


def test_a_bidirectional_ring_has_a_lane_in_either_direction_with_half_of_the_array() -> None:
    members, size = 5, 5 * 2 * 7
    for member, lanes in enumerate(schedules("bidirectional_ring", members, size)):
        peers = [{send.peer for step in lane for send in step.sends} for lane in lanes]
        assert peers == [{(member + 1) % members}, {(member - 1) % members}]
        assert all(send.offset < size // 2 for step in lanes[0] for send in step.sends)
        assert all(send.offset >= size // 2 for step in lanes[1] for send in step.sends)
        assert [len(lane) for lane in lanes] == [2 * (members - 1)] * 2


@pytest.mark.parametrize("members", POWERS)
def test_halving_doubling_of_a_power_of_two(members: int) -> None:
    size, log = 100 * members, members.bit_length() - 1
    each = 2 * size * (members - 1) // members
    for member, lanes in enumerate(schedules("halving_doubling", members, size)):
        (lane,) = lanes
        assert len(lane) == 2 * log
        assert moved(lanes) == (each, each)
        distances = [abs(step.sends[0].peer - member) for step in lane]
        assert distances == [1 << k for k in range(log)] + [1 << k for k in reversed(range(log))]
        assert [step.sends[0].size for step in lane[:log]] == [size >> k for k in range(1, log + 1)]


@pytest.mark.parametrize("members", POWERS)
def test_recursive_doubling_of_a_power_of_two(members: int) -> None:
    log = members.bit_length() - 1
    for lanes in schedules("recursive_doubling", members, 999):
        (lane,) = lanes
        assert len(lane) == log
        assert all(step.reduces and step.sends == step.recvs for step in lane)
        assert moved(lanes) == (999 * log, 999 * log)


@pytest.mark.parametrize("members", OTHERS)
def test_folded_members_hand_their_array_to_the_next_and_get_the_result(members: int) -> None:
    size = 960
    power = 1 << (members.bit_length() - 1)
    extra = members - power
    exchanged = {
        "halving_doubling": 2 * size * (power - 1) // power,
        "recursive_doubling": size * (power.bit_length() - 1),
    }
    for name, each in exchanged.items():
        for member, lanes in enumerate(schedules(name, members, size)):
            (lane,) = lanes
            if member < 2 * extra and member % 2 == 0:
                array = (Transfer(member + 1, 0, size),)
                assert lane == [Step(array, array, False)]
            elif member < 2 * extra:
                array = (Transfer(member - 1, 0, size),)
                assert (lane[0], lane[-1]) == (Step((), array, True), Step(array, (), False))
                assert moved(lanes) == (each + size, each + size)
            else:
                assert moved(lanes) == (each, each)
        assert expected_bytes(name, members, size) == [moved(lanes) for lanes in schedules(name, members, size)]


@pytest.mark.parametrize("members", [2, 3, 6, 8, 13])
def test_a_double_binary_tree_moves_half_of_the_array_on_every_edge(members: int) -> None:
    size = 6 * CHUNK_BYTES
    for member, lanes in enumerate(schedules("double_binary_tree", members, size)):
        assert len(lanes) == 2
        for lane, place in zip(lanes, two_trees(members, member), strict=True):
            edges = len(place.children) + (place.parent is not None)
            assert moved([lane]) == (edges * size // 2, edges * size // 2)
        assert max(moved(lanes)) <= 2 * size
    assert expected_bytes("double_binary_tree", members, size) == [
        moved(lanes) for lanes in schedules("double_binary_tree", members, size)
    ]


def test_a_tree_without_bytes_has_no_steps() -> None:
    # One byte is in the first half.
    assert [[bool(lane) for lane in lanes] for lanes in schedules("double_binary_tree", 3, 1)] == [[True, False]] * 3


@pytest.mark.parametrize("members", [2, 3, 8])
def test_direct_reduces_in_one_step_and_gathers_in_another(members: int) -> None:
    for lanes in schedules("direct", members, members * 4):
        (lane,) = lanes
        assert [step.reduces for step in lane] == [True, False]
        assert all(len(step.sends) == len(step.recvs) == members - 1 for step in lane)


KIND = CommKind.BARRIER
TOKEN = BARRIER_BYTES


@pytest.mark.parametrize("members", [2, 3, 4, 7, 8, 9])
def test_dissemination_doubles_its_reach_in_every_step(members: int) -> None:
    steps = (members - 1).bit_length()
    for member, lanes in enumerate(lanes_by_member("dissemination", KIND, members, 0)):
        assert lanes == [
            [
                Step(
                    (Transfer((member + (1 << k)) % members, 0, TOKEN),),
                    (Transfer((member - (1 << k)) % members, 0, TOKEN),),
                )
                for k in range(steps)
            ]
        ]
        assert bytes_per_member("dissemination", view(KIND, members, member, 0)) == (steps, steps)


def test_a_tree_collects_from_the_children_before_it_reports_to_the_parent() -> None:
    root, leaf, middle, _ = lanes_by_member("tree", KIND, 4, 0)
    parent, child = (Transfer(0, 0, TOKEN),), (Transfer(3, 0, TOKEN),)
    assert middle == [[Step((), child), Step(parent, parent), Step(child)]]
    assert leaf == [[Step(parent, parent)]]
    children = (Transfer(2, 0, TOKEN), Transfer(1, 0, TOKEN))
    assert root == [[Step((), children), Step(children)]]
