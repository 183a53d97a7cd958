"""Which iterations and ranks a report shows."""

from pathlib import Path

from emulator.control.parameter import Parameter
from emulator.results.run_folder.manifest import TraceFacts
from emulator.views.html.sections.chosen import choose, whole_iterations
from tests.support.report import facts_of, played
from tests.support.runs import collective, ranks


def test_the_median_the_fastest_and_the_slowest_come_first(tmp_path: Path) -> None:
    facts = played(tmp_path / "run")
    counted = [one for one in whole_iterations(facts) if one.number >= 0]
    found = choose(facts, counted)
    assert list(found.iterations) == [
        "iteration 2: 200 ns, the median",
        "iteration 1: 100 ns, the fastest",
        "iteration 0: 300 ns, the slowest",
    ]
    assert found.options[0] == ("2", "iteration 2: 200 ns, the median")
    assert found.in_words() == "All 2 ranks."


def test_iterations_that_follow_each_other_are_as_long_as_in_the_summary(tmp_path: Path) -> None:
    spans = {0: ranks((0, 100), (0, 300)), 1: ranks((100, 350), (300, 500))}
    parameters = {"pace": Parameter("continuous")}
    facts = facts_of(tmp_path / "run", collective([0, 0], [100, 100]), spans, parameters=parameters)
    assert [(one.start_ns, one.jct_ns) for one in whole_iterations(facts)] == [(0, 300), (100, 200)]


def test_many_ranks_and_short_gaps_are_simplified(tmp_path: Path) -> None:
    size = 8
    samples = collective([0] * size, [100] * size)
    spent = {0: ranks(*[(0, 100)] * 5, (0, 990), *[(0, 100)] * 2)}
    trace = TraceFacts(path="many", digest="00" * 32, ranks=size, nodes=8, communication_nodes=8)
    facts = facts_of(tmp_path / "run", samples, spent, trace=trace)
    found = choose(facts, list(whole_iterations(facts)), lanes=3, intervals=4)
    assert 5 in found.ranks  # the slowest rank is always shown
    assert found.ranks[0] == 0
    assert len(found.ranks) <= 3
    assert found.in_words() == f"{len(found.ranks)} of 8 ranks."
