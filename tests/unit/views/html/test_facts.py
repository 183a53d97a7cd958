"""What the report of a run reads from its folder."""

from dataclasses import replace
from pathlib import Path

from emulator.results.run_folder.manifest import RUNNING, Exclusion, Trials
from emulator.results.run_folder.reader import read_run
from emulator.views.html.facts import class_names, read_facts
from tests.support.report import facts_of
from tests.support.runs import collective, pair, ranks

SAMPLES = [*collective([0, 5], [10, 20]), *pair(0, 8, instance=1)]
SPENT = {-1: ranks((0, 9), (0, 9)), 0: ranks((0, 30), (0, 25)), 1: ranks((40, 90))}


def test_spans_have_every_communication_with_its_kind_and_times(tmp_path: Path) -> None:
    spans = facts_of(tmp_path / "run", SAMPLES, SPENT).spans
    found = [
        (spans.kinds[kind], int(rank), int(post), int(done))
        for kind, rank, post, done in zip(spans.kind, spans.rank, spans.post_ns, spans.done_ns, strict=True)
    ]
    assert found == [("all_reduce", 0, 0, 10), ("all_reduce", 1, 5, 20), ("send", 0, 0, 13), ("recv", 1, 0, 8)]


def test_times_and_distribution_belong_to_the_row_of_the_table(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "run", SAMPLES, SPENT)
    rows = facts.summary.classes
    assert sorted(class_names(rows)) == ["all_reduce, 2 ranks, 1000 B, ring", "send_recv, 2 ranks, 1000 B, ring"]
    row = next(one for one in rows if one.collective == "all_reduce")
    assert facts.times(row).time_ns.tolist() == [15]  # from the last post to the last done
    assert facts.distribution(row).p50_ns == row.cct_p50_ns == 15


def test_excluded_iterations_are_those_of_the_manifest(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "run", SAMPLES, SPENT, trials=Trials(3, 1, 1, (Exclusion(1, "a rank was late"),)))
    assert facts.excluded == {1}


def test_during_the_run_only_whole_iterations_are_counted(tmp_path: Path) -> None:
    ended = facts_of(tmp_path / "run", SAMPLES, SPENT)
    assert not ended.is_running
    assert ended.late_posts is not None
    run = read_run(tmp_path / "run")
    facts = read_facts(replace(run, manifest=replace(run.manifest, status=RUNNING)))
    assert facts.is_running
    trials = facts.manifest.trials
    assert (trials.attempted, trials.warmup, trials.included) == (3, 1, 1)
    assert (facts.late_posts, facts.late_ends) == (None, None)


def test_a_run_without_samples_is_read_all_the_same(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "run", [], {})
    assert (facts.summary.classes, facts.jct) == ((), None)
    assert len(facts.spans.rank) == len(facts.compute.rank) == 0
