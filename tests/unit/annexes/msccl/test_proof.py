"""A right algorithm is proved; a wrong one is refused with the rank and the chunk that are wrong."""

import pytest

from emulator.annexes.msccl.program import parse_program
from emulator.annexes.msccl.proof import prove
from emulator.errors import PlanError
from tests.support.msccl_files import (
    all_pairs_all_reduce,
    all_pairs_all_to_all,
    passing_ring_all_reduce,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    step,
    to_xml,
)

RIGHT = {
    "ring all-reduce": ring_all_reduce(4),
    "ring all-reduce on two channels": ring_all_reduce(3, channels=2),
    "ring all-reduce that passes on": passing_ring_all_reduce(5),
    "all-pairs all-reduce": all_pairs_all_reduce(4),
    "all-gather": ring_all_gather(4, in_place=False, parts=2),
    "all-gather in place": ring_all_gather(5, in_place=True),
    "reduce-scatter": ring_reduce_scatter(4),
    "all-to-all": all_pairs_all_to_all(4),
}


def proof(text: str) -> None:
    prove(parse_program(text, "file.xml"), "file.xml")


def problem(text: str) -> str:
    with pytest.raises(PlanError) as caught:
        proof(text)
    return str(caught.value)


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_a_right_algorithm_is_proved(text: str) -> None:
    proof(text)


def changed(text: str, number: int, old: str, new: str) -> str:
    """The text with the n-th occurrence changed."""
    at = -1
    for _ in range(number):
        at = text.index(old, at + 1)
    return text[:at] + new + text[at + len(old) :]


def test_a_sum_that_is_stored_over_names_the_rank_and_the_chunk() -> None:
    said = problem(changed(ring_all_reduce(4), 1, 'type="rrc"', 'type="r"'))
    assert said == (
        "file.xml: rank 0 ends with chunk 3 without rank 0 as chunk 3 of its output; it must be chunk 3 from all ranks"
    )


def test_a_contribution_that_is_added_twice_is_named_with_its_line() -> None:
    said = problem(ring_all_reduce(3).replace('type="r"', 'type="rrc"'))
    assert said.startswith("file.xml:")
    assert "adds the contribution of rank" in said
    assert "twice" in said


def test_chunks_of_different_numbers_are_not_added() -> None:
    said = problem(
        changed(ring_all_reduce(4), 1, 'type="rrc" srcbuf="i" srcoff="3"', 'type="rrc" srcbuf="i" srcoff="2"')
    )
    assert "rank 0 adds chunk 3 of the array to chunk 2" in said


def test_a_missing_chunk_is_named() -> None:
    short = to_xml(
        "allgather", [[(1, 1, 0, [step("s", "o0")])], [(0, 0, 0, [step("r", "o0")])]], chunks=2, in_place=True
    )
    assert problem(short) == "file.xml: rank 0 ends with nothing as chunk 1 of its output; it must be chunk 0 of rank 1"


def test_an_all_to_all_that_mixes_up_receivers_is_named() -> None:
    right, wrong = 'type="s" srcbuf="i" srcoff="2"', 'type="s" srcbuf="i" srcoff="1"'
    said = problem(all_pairs_all_to_all(3).replace(right, wrong, 1))
    assert "rank 2 ends with chunk 1 of rank 0 as chunk 0 of its output; it must be chunk 2 of rank 0" in said


def test_thread_blocks_that_nothing_orders_are_refused() -> None:
    said = problem(all_pairs_all_reduce(4, waits=False))
    assert "in two thread blocks, and nothing orders them" in said or "where nothing is" in said


def test_a_race_is_found_even_if_the_order_that_is_tried_is_right() -> None:
    # Block 0 receives into o1, block 1 sends o1 on: in the order of the file that works.
    gpus = [
        [(1, 1, 0, [step("s", "o0"), step("r", "o1")]), (2, 2, 0, [step("s", "o0"), step("r", "o2"), step("s", "o1")])],
        [(0, 0, 0, [step("r", "o0"), step("s", "o1")]), (2, 2, 0, [step("s", "o1"), step("r", "o2")])],
        [(0, 0, 0, [step("s", "o2"), step("r", "o0"), step("r", "o1")]), (1, 1, 0, [step("s", "o2"), step("r", "o1")])],
    ]
    assert "nothing orders them" in problem(to_xml("allgather", gpus, chunks=3, in_place=True))


def test_a_deadlock_names_who_waits_for_what() -> None:
    waiting = [[(1, 1, 0, [step("r", "o1"), step("s", "o0")])], [(0, 0, 0, [step("r", "o0"), step("s", "o1")])]]
    said = problem(to_xml("allgather", waiting, chunks=2, in_place=True))
    assert "rank 0 waits for a message from rank 1 on channel 0, which never comes" in said
    circle = [[(-1, -1, 0, [step("nop", "i0", after=(1, 0))]), (-1, -1, 0, [step("nop", "i0", after=(0, 0))])]] * 2
    assert "waits for step 0 of thread block 1" in problem(to_xml("allgather", circle, chunks=2, in_place=True))


def test_a_message_that_nobody_receives_is_named() -> None:
    text = ring_all_gather(2, in_place=True)
    more = to_xml(
        "allgather",
        [
            [(1, 1, 0, [step("s", "o0"), step("r", "o1"), step("s", "o0")])],
            [(0, 0, 0, [step("s", "o1"), step("r", "o0")])],
        ],
        chunks=2,
        in_place=True,
    )
    proof(text)
    assert problem(more) == "file.xml: rank 1 never receives what rank 0 sends it last on channel 0 (chunk 0)"


def test_two_thread_blocks_on_one_channel_are_refused() -> None:
    blocks = [(1, -1, 0, [step("s", "o0")]), (1, -1, 0, [step("s", "o0")])]
    assert "two thread blocks of gpu 0 use channel 0 with gpu 1" in problem(
        to_xml("allgather", [blocks, [(-1, 0, 0, [step("r", "o0"), step("r", "o0")])]], chunks=2, in_place=True)
    )


def test_both_ends_agree_about_the_number_of_chunks() -> None:
    said = problem(ring_all_gather(2, in_place=True, parts=2).replace('cnt="2"', 'cnt="1"', 1))
    assert "expects 2 chunks, gets 1" in said
