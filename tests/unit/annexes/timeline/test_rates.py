"""How flows share a port over time: convergence, fairness, and what rules make of them."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from emulator.annexes.timeline.rates import Rates, port_rates
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import TIMELINE_SCHEMA, RunTable, to_batch
from emulator.results.run_folder.writer import RunWriter
from emulator.results.statistics.port_rates import NO_TIMELINE, PortRates
from emulator.results.statistics.summary import summarise
from emulator.results.verdict.judge import Outcome, judge
from emulator.results.verdict.rules import load_rules
from tests.support.runs import collective, columns, manifest, ranks

MS = 1_000_000
Share = Callable[[int], tuple[int, int]]
"""Bin → bytes of two flows to rank 1."""


def timeline(share: Share, bins: int) -> dict[str, list[int]]:
    rows = [(flow, at, size) for at in range(bins) for flow, size in enumerate(share(at)) if size]
    flow, at, size = (list(column) for column in zip(*rows, strict=True))
    fixed = {"src": 0, "dst": 1, "bin_ns": MS, "retransmits": 0, "ecn_marks": 0}
    found = {name: [value] * len(rows) for name, value in fixed.items()}
    return found | {"qpn": [17 + one for one in flow], "start_ns": [one * MS for one in at], "bytes": size}


def sharing(share: Share, bins: int) -> PortRates:
    table = pa.Table.from_batches([to_batch(TIMELINE_SCHEMA, timeline(share, bins))])
    [found] = Rates(table, manifest()).sharing()
    return found


def joins(at: int) -> tuple[int, int]:
    """The second flow begins in bin 100, gets a tenth until bin 150, then half."""
    return (1000, 0) if at < 100 else (900, 100) if at < 150 else (510, 490)


def test_bins_of_two_jobs_that_share_no_edges_are_joined_to_some_that_do() -> None:
    """10 bytes a ms each, in bins of 8 and of 10 ms, for 400 ms."""
    tables = []
    for length in (8, 10):
        rows = timeline(lambda at, size=10 * length: (size, 0), 400 // length)  # type: ignore[misc]
        rows |= {"bin_ns": length * MS, "start_ns": [one * length for one in rows["start_ns"]]}
        tables.append(pa.Table.from_batches([to_batch(TIMELINE_SCHEMA, rows)]))
    found = Rates(tables[0], manifest(), (tables[1], manifest()))
    assert found.bin_ns == 40 * MS
    assert set(found.total("both").rate_bps.tolist()) == {2 * 10 * 8e3}


def test_flows_converge_when_all_keep_their_fair_shares() -> None:
    found = sharing(joins, 300)
    assert (found.flows, found.convergence_ns, found.window_ns, found.why) == (2, 50 * MS, 10 * MS, "")
    assert found.fairness == pytest.approx(1000**2 / (2 * (510**2 + 490**2)))
    assert found.mean_bps == pytest.approx(8e6)


def test_a_pause_of_all_flows_is_no_unfairness_and_bins_alone_say_nothing() -> None:
    found = sharing(lambda at: (0, 0) if 41 <= at < 91 else (100, 0) if at % 2 else (0, 100), 200)
    assert (found.convergence_ns, found.fairness) == (0, 1.0)
    assert found.rate_cv == pytest.approx((50 / 150) ** 0.5)


@pytest.mark.parametrize(
    ("share", "bins", "fairness", "unfair_ns", "why"),
    [
        (lambda at: (900, 100), 200, pytest.approx(1 / 1.64), 200 * MS, "within 10 % of their fair shares"),
        (lambda at: (900, 100) if at < 160 else (500, 500), 200, pytest.approx(1 / 1.64), 160 * MS, "within 10 %"),
        (lambda at: (500, 500), 49, None, None, "did not move together for 5 windows of 10 bins"),
        (lambda at: (500, 0) if at < 99 else (0, 500), 200, None, None, "did not move together"),
        (lambda at: (500, 0), 200, None, None, "one flow"),
    ],
)
def test_flows_that_do_not_converge_are_no_number(
    share: Share, bins: int, fairness: float | None, unfair_ns: int | None, why: str
) -> None:
    found = sharing(share, bins)
    assert (found.convergence_ns, found.fairness, found.unfair_ns) == (None, fairness, unfair_ns)
    assert why in found.why


def verdicts(folder: Path, share: Share | None, *texts: str) -> list[tuple[Outcome, str]]:
    """Of a run with this timeline, or none; the worst first."""
    with RunWriter(folder / "run", manifest()) as writer:
        writer.add(RunTable.SAMPLES, columns(collective([0, 0], [300 * MS] * 2)))
        writer.add_iteration(0, ranks((0, 300 * MS), (0, 300 * MS)))
        if share is not None:
            writer.add(RunTable.TIMELINE, timeline(share, 300))
    run = read_run(folder / "run")
    assert len(port_rates(run)) == (share is not None)
    file = folder / "rules.yaml"
    file.write_text("charkha_rules: 1\nrules:\n" + "".join(f"  - {text}\n" for text in texts))
    found = judge(summarise(run), load_rules(str(file)))
    return [(one.outcome, one.reason) for one in found.findings]


FAST, SLOW = "{metric: convergence_time, at_most: 60 ms}", "{metric: convergence_time, at_most: 40 ms}"
LONG = "{metric: convergence_time, at_most: 400 ms}"


def test_rules_on_ports_pass_and_fail(tmp_path: Path) -> None:
    fair = "{metric: rate_fairness, at_least: 0.9}"
    found = verdicts(tmp_path, joins, FAST, SLOW, fair)
    assert [one for one, _ in found] == [Outcome.FAIL, Outcome.PASS, Outcome.PASS]


@pytest.mark.parametrize(("most", "outcome"), [(0.501, Outcome.PASS), (0.499, Outcome.FAIL)])
def test_rules_on_the_variation_of_a_rate_count_single_bins(tmp_path: Path, most: float, outcome: Outcome) -> None:
    rule = f"{{metric: rate_cv, at_most: {most}}}"  # 500 and 1500 in turns: 500 / 1000
    assert [one for one, _ in verdicts(tmp_path, lambda at: (1500, 0) if at % 2 else (0, 500), rule)] == [outcome]


def test_a_rule_on_flows_that_never_converge_fails_where_they_had_the_time(tmp_path: Path) -> None:
    (too_slow, reason), (open_, _) = verdicts(tmp_path, lambda at: (900, 100), FAST, LONG)
    assert (too_slow, open_) == (Outcome.FAIL, Outcome.UNDECIDED)
    assert "fair shares" in reason


def test_a_rule_on_ports_without_a_timeline_is_undecided(tmp_path: Path) -> None:
    assert verdicts(tmp_path, None, FAST) == [(Outcome.UNDECIDED, f"no port received several flows, or {NO_TIMELINE}")]
