"""Flows beside the job in the summary of a run."""

from __future__ import annotations

from pathlib import Path

from emulator.run_folder.flow_results import FlowResult
from emulator.statistics.flow_results import flow_results
from emulator.statistics.summary import summarise
from emulator.views.as_json.summary import summary_to_json
from emulator.views.figures import NONE
from emulator.views.flow_result_columns import FLOW_RESULT_COLUMNS
from tests.support.flow_results import RESULTS, write_flow_results
from tests.support.runs import collective, write_run


def test_a_run_without_flows_has_none(tmp_path: Path) -> None:
    assert flow_results(write_run(tmp_path / "run", collective([0, 0], [9, 9]))) == ()


def test_the_summary_has_every_direction_of_every_flow(tmp_path: Path) -> None:
    run = write_flow_results(tmp_path / "run")
    summary = summarise(run)
    assert summary.flow_results == RESULTS
    assert summary.totals.unexplained_retransmissions is None  # what a device dropped may be of the flows
    assert [row["messages"] for row in summary_to_json(summary)["flow_results"]] == [9, 8, 7]


def test_the_table_says_who_counted_what() -> None:
    def cells(result: FlowResult) -> list[str]:
        return [column.cell(result) for column in FLOW_RESULT_COLUMNS]

    sent, reported, latency = (cells(result) for result in RESULTS)
    assert sent[:4] == ["0: h0 → nic", "write 64 KiB", "sent by h0", "9"]
    assert sent[5:] == ["8.00", "3", NONE, "yes"]
    assert reported[0] == "1: h1 ← nic"
    assert reported[2] == "read by nic, it says"
    assert latency[2] == "read by h1"
    assert latency[7:] == ["12 µs", "no"]
