"""The run folder of format version 1 that is kept in tests/data reads as it was written, whatever came since."""

from dataclasses import asdict, replace

import pytest

from emulator.controller.recording.measured_trace import annotate
from emulator.results.run_folder.manifest import LAST_DONE
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.summary import summarise
from tests.data.make_run_v1 import FLOWS, FOLDER, MANIFEST, ranks, samples

ITERATIONS = (-1, 0, 1, 2)
RUN = read_run(FOLDER)


def test_its_facts() -> None:
    assert RUN.manifest == replace(MANIFEST, status="complete", cct_until=LAST_DONE)
    assert RUN.closed


def test_its_tables() -> None:
    rows = [row for n in ITERATIONS for row in samples(n)]
    for row in rows:
        row.pop("retransmits", None)  # a column of that version that nothing filled
    assert RUN.table(RunTable.SAMPLES).to_pylist() == rows
    spans = [{"iteration": n} | asdict(one) for n in ITERATIONS for one in ranks(n)]
    assert RUN.table(RunTable.ITERATIONS).to_pylist() == spans
    assert RUN.table(RunTable.FLOWS).to_pylist() == [asdict(flow) | {"medium": None} for flow in FLOWS]


def test_its_summary() -> None:
    summary = summarise(RUN)
    reduce, gather, sent = summary.classes
    assert (reduce.collective, reduce.samples, reduce.cct_p50_ns, reduce.skew_p50_ns) == (
        "all_reduce",
        2,
        92_000,
        3_000,
    )
    assert reduce.busbw_bytes_per_s == pytest.approx(4096 / 92e-6)
    assert reduce.ideal_percent == pytest.approx(100 * 20 / 92)
    assert reduce.bw_ratio == pytest.approx(0.5 * 120 / 92)
    assert (gather.size_bytes, gather.busbw_bytes_per_s) == (2000, None)
    assert (sent.collective, sent.cct_p50_ns) == ("send_recv", 8_995)
    assert summary.tester.cct_until == LAST_DONE
    assert (summary.iteration.count, summary.iteration.jct_ns, summary.iteration.slowest_rank) == (2, 200_001, 1)
    assert (summary.totals.early, summary.totals.counters) == (2, {"retransmits": 1})


def test_its_annotations() -> None:
    node = dict(annotate(RUN))[0][2**63 + 7]
    assert (node.start_micros, node.duration_micros) == (0, 90)
    assert node.attributes["charkha.samples_ns"] == [90_000, 92_000]
    assert node.attributes["charkha.cct_ns"] == 92_000
    assert node.attributes["charkha.traced_duration_micros"] == 120
