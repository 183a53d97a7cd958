"""The worst steps in words."""

from dataclasses import replace

from emulator.results.statistics.worst.worst_steps import WorstStep
from emulator.views.columns.worst_columns import WORST_STEP_COLUMNS, describe_worst_step
from tests.support.steps import WORST as STEP


def cells(step: WorstStep) -> dict[str, str]:
    return {column.name: column.cell(step) for column in WORST_STEP_COLUMNS}


def test_a_row_says_where_how_long_and_what_happened() -> None:
    assert cells(STEP) == {
        "from": "1",
        "to": "2",
        "iteration": "16",
        "of": "all_to_all 1 MiB, 4 ranks",
        "step": "0.2",
        "size": "256 KiB",
        "late": "payload",
        "time": "551 ms",
        "above median": "543 ms",
        "above ideal": "541 ms",
        "QP, UDP port": "19, 49551",
        "events": "retransmits 1,009, timeouts 1",
        "device drops": "–",  # noqa: RUF001
        "path": "h0:eth0 - sw0 (p0 to p1) - h1:eth0",
    }


def test_ports_are_named_where_no_path_does() -> None:
    found = cells(replace(STEP, path="", qpn=None, source_port=None, events={}, device_drops=0))
    assert (found["from"], found["to"]) == ("1 (h0:eth0)", "2 (h1:eth0)")
    assert (found["QP, UDP port"], found["events"], found["device drops"]) == ("–", "none", "0")  # noqa: RUF001


def test_one_line_names_the_cost_and_its_measure() -> None:
    where = "rank 1 to 2, iteration 16"
    of = "of all_to_all 1 MiB, 4 ranks"
    assert describe_worst_step(STEP) == (
        f"{where}, step 0.2 {of}: 551 ms, 543 ms above the median; retransmits 1,009, timeouts 1"
    )
    bare = replace(STEP, above_median_ns=None, events={}, waited_for="ack")
    assert describe_worst_step(bare) == f"{where}, its ACK {of}: 551 ms, 541 ms above the ideal"
