"""Observations of a run, by the links that its groups cross."""

from pathlib import Path

import pytest

from emulator.annexes.exports.astra_sim_observe import LinkClass, message_depth, observe
from emulator.errors import PlanError
from emulator.planner.built_in import BUILT_IN
from emulator.planner.schedule import Collective, Lane, Step, Transfer
from emulator.results.run_folder.manifest import TraceFacts
from emulator.results.run_folder.reader import Run
from emulator.trace.meaning.model import CommKind
from tests.support.runs import Row, collective, pair, write_run


def depth(kind: CommKind, algorithm: str, members: int) -> int:
    return message_depth(algorithm, [Collective(kind, members, member, 1 << 20) for member in range(members)])


@pytest.mark.parametrize(
    ("kind", "algorithm", "members", "wanted"),
    [
        (CommKind.ALL_REDUCE, "ring", 2, 2),
        (CommKind.ALL_REDUCE, "ring", 8, 14),
        (CommKind.ALL_REDUCE, "bidirectional_ring", 8, 14),
        (CommKind.ALL_REDUCE, "halving_doubling", 8, 6),
        (CommKind.ALL_REDUCE, "recursive_doubling", 8, 3),
        (CommKind.ALL_REDUCE, "direct", 8, 2),
        (CommKind.ALL_GATHER, "ring", 5, 4),
        (CommKind.ALL_GATHER, "direct", 5, 1),
        (CommKind.REDUCE_SCATTER, "ring", 5, 4),
        (CommKind.ALL_TO_ALL, "parallel", 6, 1),
        (CommKind.BROADCAST, "parallel", 6, 1),
        (CommKind.BARRIER, "dissemination", 8, 3),
    ],
)
def test_the_depth_is_that_of_the_literature(kind: CommKind, algorithm: str, members: int, wanted: int) -> None:
    assert depth(kind, algorithm, members) == wanted


@pytest.mark.parametrize(("kind", "algorithm"), [(kind, name) for kind, named in BUILT_IN.items() for name in named])
def test_every_algorithm_ends(kind: CommKind, algorithm: str) -> None:
    assert depth(kind, algorithm, 7) >= 1


def test_a_receive_without_a_send_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def lonely(_: str, view: Collective) -> list[Lane]:
        steps = [Step((), (Transfer(1, 0, 5),))] if view.member == 0 else []
        return [iter(steps)]

    monkeypatch.setattr("emulator.annexes.exports.astra_sim_observe.schedule", lonely)
    with pytest.raises(PlanError, match="ring waits for transfers that no member sends"):
        depth(CommKind.ALL_REDUCE, "ring", 2)


def test_lanes_have_depths_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def two_lanes(_: str, view: Collective) -> list[Lane]:
        out, back = Transfer(1 - view.member, 0, 5), Transfer(1 - view.member, 0, 5)
        exchange = Step((out,), (back,))
        return [iter([exchange] * 3), iter([exchange])]

    monkeypatch.setattr("emulator.annexes.exports.astra_sim_observe.schedule", two_lanes)
    assert depth(CommKind.ALL_REDUCE, "ring", 2) == 3


def test_groups_of_one_have_no_depth() -> None:
    assert depth(CommKind.ALL_REDUCE, "ring", 1) == 0


TRACE = TraceFacts(path="t", digest="00" * 32, ranks=4, nodes=3, communication_nodes=7)


def group(instance: int, ranks: tuple[int, ...], **fields: object) -> list[Row]:
    rows = collective([0] * len(ranks), [99] * len(ranks), instance=instance, node_id=instance, **fields)
    return [row | {"rank": rank} for row, rank in zip(rows, ranks, strict=True)]


def on_two_hosts(folder: Path, samples: list[Row]) -> Run:
    return write_run(folder / "run", samples, trace=TRACE, topology={"host_index": [0, 0, 1, 1]})


def test_links_are_told_apart_by_the_hosts_of_the_members(tmp_path: Path) -> None:
    samples = [*group(0, (0, 1)), *group(1, (0, 2)), *group(2, (0, 1, 2))]
    found = observe(on_two_hosts(tmp_path, samples))
    assert {link: [one.members for one in made] for link, made in found.by_link.items()} == {
        LinkClass.WITHIN_HOST: [2],
        LinkClass.BETWEEN_HOSTS: [2],
        LinkClass.MIXED: [3],
    }
    assert not found.left_out


def test_a_group_with_several_ranks_a_host_gives_an_observation(tmp_path: Path) -> None:
    [one] = observe(on_two_hosts(tmp_path, group(0, (0, 1, 2, 3), size_bytes=4000))).by_link[LinkClass.MIXED]
    assert (one.messages, one.port_bytes, one.cct_ns, one.samples) == (6, 6000, 99, 1)
    assert (one.collective, one.members, one.comm_size, one.algorithm) == (CommKind.ALL_REDUCE, 4, 4000, "ring")


def test_the_ideal_time_at_the_ports_is_known_if_they_have_rates(tmp_path: Path) -> None:
    samples = [*group(0, (0, 2), ideal_ns=70), *group(1, (1, 3), size_bytes=8)]
    found = observe(on_two_hosts(tmp_path, samples)).by_link[LinkClass.BETWEEN_HOSTS]
    assert {one.comm_size: one.ideal_ns for one in found} == {1000: 70, 8: None}


def test_a_pair_is_one_message(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", pair(0, 500, instance=6))
    [one] = observe(run).by_link[LinkClass.WITHIN_HOST]
    assert (one.messages, one.port_bytes, one.cct_ns, one.collective) == (1, 1000, 500, CommKind.SEND)


def test_reasons_are_counted_by_class(tmp_path: Path) -> None:
    samples = [
        *group(0, (0, 1), size_bytes=0),
        *group(1, (0, 1), algorithm="mine"),
        *group(2, (0, 1), algorithm="hierarchical"),
    ]
    found = observe(on_two_hosts(tmp_path, samples))
    assert not found.by_link
    assert found.left_out == {
        "without a time (groups of one, size 0, or payload before the post)": 1,
        "played with mine, which is not installed here": 1,
        "played with hierarchical, whose bytes differ within hosts and between them; ASTRA-sim's do not": 1,
    }
