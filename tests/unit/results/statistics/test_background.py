"""Background traffic in the summary of a run: both ends of a flow in one row, and apart from the job."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from emulator.control.flows import MOST_GAPS, FlowGap
from emulator.host.parquet import write_parquet
from emulator.results.run_folder.flow_results import FlowResult
from emulator.results.run_folder.schema import RunTable, to_batch
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.traffic.background import ProbeOutage, background_flows
from emulator.views.columns.columns import filled
from emulator.views.columns.comparison_columns import BACKGROUND_COLUMNS, describe_behind
from emulator.views.columns.figures import NONE
from tests.support.runs import collective, write_run

SENT = FlowResult(
    flow=0, kind="background", host="h0", peer="h1", role="sender", verb="udp", size_bytes=1000, direction="sent",
    observer="charkha", is_complete=True, messages=900, bytes=900_000, start_ns=5, duration_ns=10**9,
    bytes_per_s=900_000.0, packets=900, pattern="poisson", sizes="fixed", rate_bps=8_800_000, dscp=0,
    wire_bps=7_900_000.0, offered_messages=1000, offered_bytes=1_000_000, offered_bps=8_780_000.0,
    lateness_median_ns=40_000.0, lateness_p99_ns=90_000.0,
)  # fmt: skip
RECEIVED = replace(
    SENT, direction="received", messages=890, bytes=890_000, packets=890, lost=10, offered_messages=None,
    offered_bytes=None, offered_bps=None, wire_bps=7_800_000.0, completions=890, completion_median_ns=2e6,
    completion_p99_ns=9e6,
)  # fmt: skip


def test_both_ends_of_a_flow_are_one_row() -> None:
    (flow,) = background_flows([SENT, RECEIVED])
    assert (flow.sender, flow.receiver, flow.transport) == ("h0", "h1", "udp")
    assert (flow.offered_messages, flow.sent_messages, flow.received_messages) == (1000, 900, 890)
    assert (flow.packets, flow.lost_packets) == (900, 10)
    assert (flow.completions, flow.completion_p99_ns, flow.lateness_p99_ns) == (890, 9e6, 90_000)
    assert flow.is_behind  # it sent less than its schedule offered
    cells = [column.cell(flow) for column in filled(BACKGROUND_COLUMNS, [flow])]
    assert cells == [
        "0: h0 → h1", "udp poisson 1000 B", "0.00878", "0.00790", "0.00780", "900", "10", "2 ms, 9 ms", "890", "90 µs",
    ]  # fmt: skip
    assert describe_behind([flow]) == (
        "Flow 0 offered 8.78 Mbit/s, sent 7.9 Mbit/s; 99 % of its messages were at most 90 µs late"
    )
    assert describe_behind([replace(flow, sent_bytes=999_000)]) == ""


def test_an_end_that_did_not_report_is_not_known() -> None:
    (flow,) = background_flows([RECEIVED])
    assert (flow.sent_messages, flow.offered_bps, flow.received_messages, flow.is_behind) == (None, None, 890, False)
    assert [column.cell(flow) for column in filled(BACKGROUND_COLUMNS, [flow])][2:4] == [NONE, NONE]


def test_the_job_does_not_count_it(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", collective([0, 0], [9, 9]))
    alone = summarise(run)
    rows = [asdict(one) for one in (SENT, RECEIVED)]
    batch = to_batch(
        RunTable.FLOW_RESULTS.schema, {name: [row[name] for row in rows] for name in rows[0] if name != "gaps"}
    )
    write_parquet(run.folder / RunTable.FLOW_RESULTS.file_name, RunTable.FLOW_RESULTS.schema, iter([batch]))
    shared = summarise(run)
    assert shared.background == tuple(background_flows([SENT, RECEIVED]))
    assert shared.flow_results == ()
    totals = replace(shared.totals, unexplained_retransmissions=alone.totals.unexplained_retransmissions)
    assert replace(shared, background=(), totals=totals) == alone


def outages(*gaps: FlowGap, pauses: Sequence[FlowGap] = (), interval_ns: int | None = 1_000) -> Sequence[ProbeOutage]:
    """Those of a flow with these gaps, whose sender ended at 90,000 ns."""
    sent, received = (replace(one, interval_ns=interval_ns, start_ns=0) for one in (SENT, RECEIVED))
    sent = replace(sent, duration_ns=90_000, gaps=pauses)
    (flow,) = background_flows([sent, replace(received, gaps=gaps)])
    return flow.outages


def test_an_outage_is_a_gap_less_one_interval() -> None:
    assert outages(FlowGap(5_000, 15_000, 9, 0), FlowGap(80_000, 99_000)) == (
        ProbeOutage(5_000, 15_000, 9_000, 2_000, 9),
        ProbeOutage(80_000, 90_000, 9_000, 2_000, None),  # what was not sent was not lost
    )
    assert outages(FlowGap(5_000, 15_000, 9, 0), interval_ns=None) == ()


def test_what_held_datagrams_back_widens_an_outage() -> None:
    late = outages(FlowGap(5_000, 15_000, 9, 400))
    assert late == (ProbeOutage(5_000, 15_000, 8_800, 2_200, 9),)  # it may have been over 400 ns before
    pauses = [FlowGap(4_900, 7_000, 0), FlowGap(10_000, 13_000, 0)]
    paused = outages(FlowGap(5_000, 15_000, 7, 0), pauses=pauses)  # it may have begun at any time until 7,000
    assert paused == (ProbeOutage(5_000, 15_000, 8_500, 2_500, 7),)
    assert outages(FlowGap(5_000, 15_000, 7), pauses=pauses) == (ProbeOutage(5_000, 15_000, 7_500, 3_500, 7),)
    many = [FlowGap(10**6 * one, 10**6 * one + 1_600, 0) for one in range(1, MOST_GAPS + 1)]
    assert outages(FlowGap(5_000, 15_000, 7, 0), pauses=many) == (ProbeOutage(5_000, 15_000, 8_400, 2_600, 7),)


def test_a_few_lost_datagrams_are_no_outage() -> None:
    assert outages(FlowGap(5_000, 7_000, 1, 0), FlowGap(20_000, 25_900, 5, 0)) == ()
    assert len(outages(FlowGap(20_000, 26_000, 5, 0))) == 1
    burst = outages(FlowGap(20_000, 50_000, 29, 0), pauses=[FlowGap(20_000, 48_000, 0)])
    assert burst == ()  # its sender slept, and sent them at once into a full queue
