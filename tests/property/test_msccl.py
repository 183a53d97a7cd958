"""Algorithms of MSCCL as lanes: every member ends with what the collective promises, in any order of events."""

import random
import re

import pytest

from emulator.annexes.msccl.lanes import ProgramLanes, lanes_of
from emulator.annexes.msccl.program import parse_program
from emulator.annexes.msccl.proof import prove
from emulator.errors import PlanError
from emulator.planner.schedule import Collective
from tests.support.collective_simulator import members_of, play, rounds, unroll
from tests.support.full import examples
from tests.support.msccl_files import (
    all_pairs_all_reduce,
    all_pairs_all_to_all,
    passing_ring_all_reduce,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
)
from tests.support.schedules import bytes_by_member
from tests.support.shared_traces import require_shared

SHARED = ("traces", "astra-sim-examples", "system", "custom_collectives")
DIRECT = {
    "ring all-reduce": ring_all_reduce(4),
    "ring on two channels": ring_all_reduce(3, channels=2),
    "all-gather": ring_all_gather(4, in_place=False, parts=2),
    "all-gather in place": ring_all_gather(5, in_place=True),
    "reduce-scatter": ring_reduce_scatter(4),
    "all-to-all": all_pairs_all_to_all(5),
}
"""Those that keep nothing in scratch: what they move stands where the collective has it."""
OTHERS = {"all-pairs all-reduce": all_pairs_all_reduce(4), "passing ring": passing_ring_all_reduce(5)}
SIZES = (1, 3, 4, 7, 64, 1001, 65537)


def lanes(text: str) -> ProgramLanes:
    program = parse_program(text, "file.xml")
    return lanes_of(program, prove(program, "file.xml"), "file.xml")


def views(algorithm: ProgramLanes, size_bytes: int) -> list[Collective]:
    program = algorithm.program
    return members_of(Collective(program.kind, members=program.gpus, member=0, size_bytes=size_bytes))


@pytest.mark.parametrize("text", DIRECT.values(), ids=DIRECT)
def test_members_end_with_what_is_promised(text: str) -> None:
    algorithm = lanes(text)
    for size_bytes in SIZES:
        for seed in range(3):
            play(views(algorithm, size_bytes), unroll(algorithm, views(algorithm, size_bytes)), seed=seed)


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_what_is_sent_is_received(text: str) -> None:
    algorithm = lanes(text)
    for size_bytes in SIZES:
        check_matched(algorithm, size_bytes)


def check_matched(algorithm: ProgramLanes, size_bytes: int) -> None:
    """Transfers of two members match in their order, and all rounds can be played."""
    unrolled = unroll(algorithm, views(algorithm, size_bytes))
    for lane in range(len(unrolled[0])):
        sent: dict[tuple[int, int], list[tuple[int, int]]] = {}
        received: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for member, own in enumerate(unrolled):
            for step in own[lane]:
                for one in step.sends:
                    sent.setdefault((member, one.peer), []).append((one.offset, one.size))
                for one in step.recvs:
                    received.setdefault((one.peer, member), []).append((one.offset, one.size))
        assert sent == received
    assert rounds(unrolled) <= sum(len(lane) for own in unrolled for lane in own)


def test_a_ring_takes_the_rounds_and_bytes_of_the_built_in_one() -> None:
    algorithm = lanes(ring_all_reduce(8))
    one = views(algorithm, 1 << 20)
    assert rounds(unroll(algorithm, one)) == 14
    assert play(one, unroll(algorithm, one)).moved == bytes_by_member("ring", one)


def test_channels_play_side_by_side() -> None:
    algorithm = lanes(ring_all_reduce(4, channels=3))
    assert len(algorithm.rounds[0]) == 3
    assert rounds(unroll(algorithm, views(algorithm, 4096))) == 6


def test_the_shared_example_is_a_ring() -> None:
    [path] = require_shared(*SHARED).rglob("*.xml")
    algorithm = lanes(path.read_text())
    one = views(algorithm, 1 << 20)
    assert rounds(unroll(algorithm, one)) == 14
    assert play(one, unroll(algorithm, one)).moved == bytes_by_member("ring", one)


@pytest.mark.parametrize("text", [*DIRECT.values(), *OTHERS.values()], ids=[*DIRECT, *OTHERS])
def test_a_damaged_algorithm_is_refused_or_still_right(text: str) -> None:
    refusals = []
    tries = examples(300)
    for seed in range(tries):
        chance = random.Random(seed)
        try:
            algorithm = lanes(damaged(text, chance))
        except PlanError as error:
            refusals.append(str(error))
            continue
        check_matched(algorithm, 1000)
        if text in DIRECT.values():
            one = views(algorithm, 1000)
            play(one, unroll(algorithm, one), seed=seed)
    assert len(refusals) > tries / 3
    assert all(said.startswith("file.xml") and "\n" not in said for said in refusals)


def damaged(text: str, chance: random.Random) -> str:
    if chance.random() < 0.1:
        return text[: chance.randrange(len(text))]
    values = list(re.finditer(r'(\w+)="([^"]*)"', text))
    for _ in range(chance.randint(1, 2)):
        place = chance.choice(values)
        others = [one[2] for one in values if one[1] == place[1]]
        new = chance.choice([*others, "-1", "0", "1", "s", "rrc", "99", ""])
        text = text[: place.start(2)] + new + text[place.end(2) :]
        values = list(re.finditer(r'(\w+)="([^"]*)"', text))
    return text
