"""Rates over time in a lab: every byte, and a step of the device's rate when it was made."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.measured_rows import to_ints
from tests.support.full import measures
from tests.support.star_lab import Lab, star

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow]
BIN_NS = 10_000_000
PROFILE = "name: slower\nrules:\n  - {shape: {rate: 10%}, port: 'sw0:p1', start: 1, end: 2.5}\n"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    one = Lab(tmp_path, star(2, rate="1Gbit", mtu=9000))
    try:
        one.up()
        yield one
    finally:
        one.down()


@measures
def test_a_port_that_becomes_slower_is_found_in_the_bin_in_which_it_did(lab: Lab) -> None:
    (lab.folder / "slower.yaml").write_text(PROFILE)
    options = ("-n", 2, "-b", "300M", "-e", "300M", "--iterations", 1, "--warmup", 0, "--profile", "slower.yaml")
    run = lab.run("sendrecv", *options, "--set", "timeline=10ms", out="run")
    table, flows = run.table(RunTable.TIMELINE), run.table(RunTable.FLOWS).to_pylist()
    for flow in flows:
        own = [row for row in table.to_pylist() if all(row[name] == flow[name] for name in ("src", "dst", "qpn"))]
        for name in ("bytes", "retransmits"):
            assert sum(row[name] for row in own) == (flow[name] or 0)
    began_ns = int(to_ints(run.table(RunTable.ITERATIONS)["start_ns"]).min())
    [rule] = run.manifest.dut["profile"]["rules"]
    start_ns, end_ns = (began_ns + int(rule[name] * 1e9) for name in ("started_s", "ended_s"))
    first = start_ns - 60 * BIN_NS
    before = first - first % BIN_NS
    to_1 = np.flatnonzero(to_ints(table["dst"]) == 1)
    at, size = (to_ints(table["start_ns"])[to_1] - before) // BIN_NS, to_ints(table["bytes"])[to_1]
    rate_bps = np.zeros((min(end_ns, start_ns + 60 * BIN_NS) - before) // BIN_NS)
    inside = (at >= 0) & (at < len(rate_bps))
    np.add.at(rate_bps, at[inside], size[inside] * 8e9 / BIN_NS)
    cuts = range(1, len(rate_bps))
    spread = [rate_bps[:cut].var() * cut + rate_bps[cut:].var() * (len(rate_bps) - cut) for cut in cuts]
    step = cuts[int(np.argmin(spread))]
    assert rate_bps[:step].mean() > 3e8
    assert rate_bps[step + 2 :].mean() < 1.2e8
    assert abs(before + step * BIN_NS - start_ns) <= 2 * BIN_NS
