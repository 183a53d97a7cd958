"""Stragglers in a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Table, Text
from emulator.views.html.sections.late import RANKS, stragglers
from tests.support.report import block_of, facts_of, identifiers, records
from tests.support.runs import collective, ranks


def late(folder: Path, *, count: int = 12, members: int = 4) -> PageFacts:
    """The last rank always posts 900 ns late; all complete last in turn."""
    samples = []
    for number in range(count):
        dones = [2000 + (rank == number % members) for rank in range(members)]
        samples += collective([0] * (members - 1) + [900], dones, iteration=number, name="grad")
    return facts_of(folder, samples, {0: ranks(*[(0, 2000)] * members)})


def test_during_the_run_stragglers_are_not_known_yet(tmp_path: Path) -> None:
    facts = replace(late(tmp_path / "run"), late_posts=None, late_ends=None)
    assert block_of(stragglers(facts), "no-stragglers", Text).text == "Available when the run ends."


def test_without_a_collective_there_is_no_straggler(tmp_path: Path) -> None:
    section = stragglers(facts_of(tmp_path / "run", [], {0: ranks((0, 1), (0, 1))}))
    assert block_of(section, "no-stragglers", Text).text.startswith("No collective of two ranks or more")


def test_a_rank_that_is_late_more_often_than_by_chance_is_named(tmp_path: Path) -> None:
    text = block_of(stragglers(late(tmp_path / "run")), "straggler-sentence", Text).text
    assert text.startswith("Last to post more often than by chance: rank 3 (p = ")
    assert text.endswith("No rank was last to complete more often than by chance.")


def test_the_table_of_ranks_has_counts_expectation_and_delay(tmp_path: Path) -> None:
    table = block_of(stragglers(late(tmp_path / "run")), "late-post", Table)
    first = records(table)[0]
    assert {name: first[name] for name in ("rank", "last in", "of", "expected", "behind", "iterations")} == {
        "rank": "3",
        "last in": "12",
        "of": "12",
        "expected": "3.00",
        "behind": "900 ns",
        "iterations": "12 of 12",
    }
    assert table.about == ""


def test_further_ranks_are_counted(tmp_path: Path) -> None:
    table = block_of(stragglers(late(tmp_path / "run", members=RANKS + 2)), "late-post", Table)
    assert len(table.rows) == RANKS
    assert table.about == "2 more ranks are less often last."


def test_the_steps_with_the_longest_wait_are_listed(tmp_path: Path) -> None:
    section = stragglers(late(tmp_path / "run"))
    (step,) = records(block_of(section, "late-steps", Table))
    assert (step["step"], step["kind"], step["group"], step["members"]) == ("grad", "all_reduce", "world", "4")
    assert (step["first to last post"], step["rank last"], step["last in"]) == ("900 ns", "3", "12 of 12")
    assert identifiers(section) == ["straggler-sentence", "late-post", "late-done", "late-steps"]
