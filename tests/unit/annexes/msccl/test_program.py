"""XML that is no algorithm is refused with its line; nothing outside the file is read."""

import pytest

from emulator.annexes.msccl.program import parse_program
from emulator.errors import PlanError
from tests.support.msccl_files import ring_all_gather, ring_all_reduce, step, to_xml

RING = ring_all_reduce(3)
BOMB = '<!DOCTYPE algo [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>\n<algo name="&b;"/>'
OUTSIDE = '<!DOCTYPE algo SYSTEM "file:///etc/passwd">\n<algo/>'


def problem(text: str) -> str:
    with pytest.raises(PlanError) as caught:
        parse_program(text, "file.xml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_algorithm_is_read() -> None:
    program = parse_program(RING, "file.xml")
    assert (program.gpus, program.chunks, program.is_in_place, program.name) == (3, 3, True, "allreduce by hand")
    block = program.blocks[0][0]
    assert (block.send_peer, block.recv_peer, len(block.instructions)) == (1, 2, 8)


@pytest.mark.parametrize("text", [BOMB, OUTSIDE])
def test_entities_and_document_types_are_refused(text: str) -> None:
    assert problem(text) == "file.xml:1: declares a document type or an entity: remove it"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("</algo>", "", "is not XML"),
        ('coll="allreduce"', 'coll="broadcast"', "coll 'broadcast' cannot be played; there are allreduce, allgather"),
        ('ngpus="3"', 'ngpus="4"', "has no gpu 3, and ngpus is 4"),
        ('ngpus="3"', 'ngpus="x"', "ngpus 'x' is not a whole number from 2 to 1024"),
        ('<gpu id="1"', '<gpu id="0"', "gpu 0 is given twice"),
        ('<tb id="0"', '<tb id="7"', "are not numbered from 0 on"),
        ('send="1" recv="2"', 'send="0" recv="2"', "gpu 0 has itself as a peer"),
        ('send="1" recv="2"', 'send="-1" recv="2"', "'s' in a thread block without a send peer"),
        ('type="rrc"', 'type="xyz"', "type 'xyz' is no instruction; there are s, r, rcs"),
        ('srcoff="2"', 'srcoff="3"', "uses chunk 3 of buffer 'i', which has 3"),
        ('srcbuf="i"', 'srcbuf="q"', "srcbuf 'q' is neither i, o nor s"),
        ('<step s="1"', '<step s="5"', "step 5 stands where step 1 must be"),
        ('depid="-1"', 'depid="4"', "depid '4' is not a whole number from -1 to 0"),
        ("<step ", "<stop ", "<stop> in <tb>; an algorithm is <algo><gpu><tb><step>"),
        (' nchunksperloop="3"', "", "<algo> has no nchunksperloop"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, said: str) -> None:
    found = problem(RING.replace(old, new, 1))
    assert said in found
    assert found.startswith("file.xml:")


def test_shards_are_cut_alike() -> None:
    assert "nchunksperloop 5 is no multiple of ngpus 3" in problem(
        ring_all_gather(3, in_place=True).replace('nchunksperloop="3"', 'nchunksperloop="5"')
    )


def test_a_step_that_waits_needs_one_that_signals() -> None:
    text = to_xml("allgather", [[(-1, -1, 0, [step("nop", "i0", after=(0, 0))])]] * 2, chunks=2)
    assert "waits for step 0 of thread block 0, which has no hasdep=1" in problem(
        text.replace('hasdep="1"', 'hasdep="0"')
    )
