"""Observations of a run, by the links that its groups cross."""

from __future__ import annotations

from pathlib import Path

from emulator.annexes.exports.astra_sim.observe import LinkClass, observe
from emulator.results.run_folder.manifest import TraceFacts
from emulator.results.run_folder.reader import Run
from emulator.trace.meaning.model import CommKind
from tests.support.runs import Row, collective, pair, write_run

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
