"""Rates over time in a lab: every byte, and a step of the device's rate when it was made."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.summary import summarise
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
    [event] = summarise(run).events
    change, made_ns, error_ns = event.rate_at_begin, event.event.begin_ns, event.event.begin_error_ns
    assert change.from_bps > 3e8
    assert change.to_bps < 1.2e8
    assert made_ns - error_ns - 2 * BIN_NS <= change.at_ns <= made_ns + 2 * BIN_NS
