import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from emulator.control.observations import FlowCounters
from emulator.results.run_folder.manifest import Exclusion, HostFacts, Scaling, Trials
from emulator.results.statistics.events import Migrations
from emulator.results.statistics.summary import RunSummary, summarise
from emulator.views.as_json import summary_to_json
from emulator.views.columns.figures import NONE
from emulator.views.terminal.summary_table import render
from tests.support.runs import collective, pair, ranks, write_run


def text(summary: RunSummary, *, width: int = 120, limit: int | None = None) -> str:
    page = io.StringIO()
    Console(width=width, file=page).print(render(summary, limit=limit))
    return page.getvalue()


@pytest.fixture
def rich_summary(tmp_path: Path) -> RunSummary:
    known = {"ideal_ns": 40_000, "traced_ns": 200_000}
    rows = [
        *collective([0, 7], [100_000, 90_000], size_bytes=1 << 20, algorithm="halving_doubling", **known),
        *collective([0, 0], [90_000, 90_000], instance=1, kind="reduce_scatter_block", size_bytes=1_234_567, **known),
        *pair(0, 50_000, instance=2, size_bytes=64, algorithm="", **known),
        *collective([0, 0], [1_000, 1_000], instance=3, kind="barrier", size_bytes=0),
    ]
    return summarise(
        write_run(
            tmp_path / "run",
            rows,
            iterations={0: ranks((0, 200_000), (0, 210_000), compute=120_000, communication=150_000, overlap=90_000)},
            flows=[FlowCounters(0, 1, retransmits=3)],
            roofline_ns=105_000,
            sequential_roofline_ns=210_000,
            hosts=(
                HostFacts("a0", ranks=2, peak_rss_bytes=50 << 20, post_lateness_median_ns=31_000, steal_fraction=0.034),
            ),
            warnings={"dangling dependency": 2},
        )
    )


@pytest.mark.parametrize("width", [120, 100, 80, 60])
def test_every_line_fits_the_width(rich_summary: RunSummary, width: int) -> None:
    assert max(len(line) for line in text(rich_summary, width=width).splitlines()) <= width


def test_a_run_whose_times_had_another_meaning_says_so(rich_summary: RunSummary) -> None:
    older = replace(rich_summary, tester=replace(rich_summary.tester, cct_until="last_done"))
    assert "cct until the last acknowledgement" in text(older, width=400)
    assert "acknowledgement" not in text(rich_summary, width=400)


def test_traffic_that_moved_to_another_port_is_listed(rich_summary: RunSummary) -> None:
    assert "Migrations" not in text(rich_summary)
    moved = replace(rich_summary, migrations=(Migrations("h0:eth0", "migration to eth1", 3, 1_500_000_000, 2 * 10**9),))
    assert ["h0:eth0", "migration", "to", "eth1", "3", "1.500", "s", "2.000", "s"] in [
        line.split() for line in text(moved).splitlines()
    ]
    assert list(summary_to_json(moved)["migrations"]) == [
        {
            "where": "h0:eth0",
            "what": "migration to eth1",
            "moves": 3,
            "first_ns": 1_500_000_000,
            "last_ns": 2 * 10**9,
            "spans": (),
        }
    ]


def test_a_long_path_leaves_its_middle_out(rich_summary: RunSummary) -> None:
    shown = text(replace(rich_summary, trace=f"/first/{'x' * 300}/last"))
    line = shown.splitlines()[0]
    assert line.startswith("/first/x")
    assert "…" in line
    assert "x/last, 2 ranks" in line


def test_nothing_is_cut_or_left_out_at_the_full_width(rich_summary: RunSummary) -> None:
    shown = text(rich_summary)
    assert "Left out" not in shown
    assert "…" not in shown
    for word in ("halving_doubling", "reduce_scatter_block", "send_recv", "barrier", "1.18 MiB", "skew", "traced"):
        assert word in shown


def test_a_narrow_table_names_what_it_leaves_out(rich_summary: RunSummary) -> None:
    shown = text(rich_summary, width=60)
    assert "Omitted at this width: traced, skew p50" in shown
    assert "busbw" in shown


def test_columns_without_any_value_are_not_shown(tmp_path: Path) -> None:
    shown = text(summarise(write_run(tmp_path / "run", collective([0, 0], [10, 10]))))
    assert not {"ideal", "traced", "ratio"} & set(shown.split())
    assert "–" in shown  # noqa: RUF001 (p99 of one sample)


def test_the_numbers_are_those_of_the_run(rich_summary: RunSummary) -> None:
    lines = text(rich_summary).splitlines()
    (line,) = (line for line in lines if "halving_doubling" in line)
    # 1 MiB in 99.993 µs; ideal 40 µs, traced 200 µs; one sample carries no 99th percentile.
    shown = "all_reduce 2 1 MiB halving_doubling 1 10.5 10.5 40.0 100 µs – 100 µs 7 ns 200 µs 2.00"  # noqa: RUF001
    assert " ".join(line.split()) == shown


def test_the_iteration_is_told_below(rich_summary: RunSummary) -> None:
    shown = text(rich_summary)
    for part in (
        "210 µs (U not stated: one iteration) median",
        "over 1; ideal 105 µs",
        "60 µs of communication, 29 % of the iteration (rank 1,",
        "90 µs, 60 % of 150 µs of communication; compute 120 µs",
        "retransmissions 3",
        "endpoint software boundary, CLOCK_MONOTONIC of one host",
        "50 MiB of memory an agent, the hypervisor took 3.4 % of the cores' time (steal)",
        "dangling dependency (2 times)",
    ):
        assert part in " ".join(shown.split())


def test_iterations_that_began_late_and_the_memory_of_a_rank_are_told(rich_summary: RunSummary) -> None:
    tester = replace(rich_summary.tester, late_starts=3, rank_rss_bytes=5 << 20)
    shown = " ".join(text(replace(rich_summary, tester=tester)).split())
    assert "an agent began late in 3 of the iterations" in shown
    assert "50 MiB of memory an agent, 5 MiB a rank" in shown


@pytest.mark.parametrize(
    ("scaling", "said"),
    [
        (Scaling(bytes=0.01), "sizes × 0.01"),  # noqa: RUF001
        (Scaling(compute="skip"), "compute skipped"),
        (Scaling(compute="0.5"), "compute time × 0.5"),  # noqa: RUF001
        (Scaling(element_bytes=2), "elements of 2 bytes"),
    ],
)
def test_a_scaled_run_says_so(rich_summary: RunSummary, scaling: Scaling, said: str) -> None:
    assert said in text(replace(rich_summary, scaling=scaling))
    assert said not in text(rich_summary)


def test_clocks_that_may_disagree_say_by_how_much(rich_summary: RunSummary) -> None:
    shown = text(replace(rich_summary, tester=replace(rich_summary.tester, clock_error_ns=1500)))
    assert "clock error at most 1.5 µs" in shown


def test_an_aborted_run_says_so_and_why(rich_summary: RunSummary) -> None:
    assert "aborted: interrupted" in text(replace(rich_summary, status="aborted", reason="interrupted"))


def test_what_was_left_out_is_counted(rich_summary: RunSummary) -> None:
    totals = replace(rich_summary.totals, early=4, negative=5, incomplete=6)
    trials = Trials(3, 0, 2, (Exclusion(1, "a rank was late"),))
    shown = " ".join(text(replace(rich_summary, totals=totals, trials=trials)).split())
    for part in (
        "4 samples received payload",
        "5 measurements have",
        "6 measurements lack",
        "iteration 1: a rank was late",
    ):
        assert part in shown


def test_many_classes_can_be_limited_to_the_costliest(rich_summary: RunSummary) -> None:
    shown = text(rich_summary, limit=1)
    assert "halving_doubling" in shown
    assert "barrier" not in shown
    assert "3 more classes take less time (--json has them)." in shown


def test_a_run_that_measured_nothing_still_prints(tmp_path: Path) -> None:
    assert "No collective was completed" in text(summarise(write_run(tmp_path / "run", [])))


def test_machines_get_the_same_facts_with_nulls_for_dashes(rich_summary: RunSummary) -> None:
    document = json.loads(json.dumps(summary_to_json(rich_summary), allow_nan=False))
    first = next(one for one in document["classes"] if one["algorithm"] == "halving_doubling")
    assert first["cct_p50_ns"] == 99_993
    assert first["cct_p99_ns"] is None
    assert first["busbw_bytes_per_s"] == pytest.approx((1 << 20) * 1e9 / 99_993)
    assert document["iteration"]["exposed_ns"] == 60_000
    assert document["scaling"]["bytes_factor"] == 1.0
    assert document["totals"]["counters"] == {"retransmits": 3}


def test_times_of_requests_have_their_lines(tmp_path: Path) -> None:
    send, recv = pair(4_000, 9_000, received_post=1_000)
    rows = [send | {"name": "request.3.kv.to.1"}, recv | {"name": "request.3.kv.from.0"}]
    shown = " ".join(text(summarise(write_run(tmp_path / "run", rows))).split())
    for line in (
        f"First token 8 µs median, {NONE} p99, 8 µs longest over 1 request, from arrival to the last byte",
        f"Key-value 5 µs median, {NONE} p99, 5 µs longest over 1 request",
        f"Flow completion 5 µs median, {NONE} p99, 5 µs longest over 1 flow",
    ):
        assert line in shown


def test_what_went_through_domains_is_told(rich_summary: RunSummary) -> None:
    half = rich_summary.totals.payload_bytes // 2
    shown = text(replace(rich_summary, totals=replace(rich_summary.totals, domain_bytes=half)))
    assert "In domains" in shown
    assert "(50 %), through scale-up domains inside hosts" in shown
    assert "In domains" not in text(rich_summary)
