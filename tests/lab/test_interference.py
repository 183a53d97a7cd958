"""Two equal jobs at one port of a lab: twice as long while both send, as long as alone when they do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import charkha
from tests.support.full import measures
from tests.support.star_lab import Lab, star

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow, measures]

TRANSPORT = ("--congestion", "none", "--window-bytes", "64K")
"""Equal windows are equal shares of the queue of a port, and short ones keep it shorter than a step."""
COMPUTE_US = 400_000
"""Beside 270 ms of all-reduce: a duty of 0.4."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Two hosts with ports that any machine can fill, and two jobs of one trace."""
    made = Lab(tmp_path, star(2, rate="20Mbit", mtu=1500))
    trace = ("all_reduce", "-n", 2, "-b", "600K", "--gap-micros", COMPUTE_US, "--out", "trace")
    assert charkha("generate", "collective", *trace, cwd=tmp_path).code == 0
    jobs = "".join(f"  - {{name: {name}, trace: {{path: trace}}, warmup: 1, pace: continuous}}\n" for name in "ab")
    (tmp_path / "session.yaml").write_text(f"charkha: 1\njobs:\n{jobs}observe: {{report: false}}\n")
    made.up()
    yield made
    made.down()


def phases(lab: Lab, values: str, *options: object) -> dict[str, Any]:
    """A sweep over phases."""
    swept = ("sweep", "-f", "session.yaml", "--phase", values, *TRANSPORT, *options, "--json")
    finished = lab.play(*swept, out="out", timeout_s=900)
    assert finished.code == 0, finished.stderr
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


@pytest.mark.timeout(300)
def test_two_jobs_that_send_all_the_time_take_twice_as_long(lab: Lab) -> None:
    (point,) = phases(lab, "0", "--compute", "skip", "--iterations", 30, "--repeat", 3)["points"]
    for one in point["jobs"]:
        assert one["factor"]["value"] == pytest.approx(2, rel=0.01)
    assert point["fairness"] == pytest.approx(1, abs=0.001)


@pytest.mark.timeout(900)
def test_the_curve_over_the_phase_is_that_of_two_square_waves(lab: Lab) -> None:
    found = phases(lab, "0:0.95:0.05", "--iterations", 10)
    for curve in found["curves"]:
        assert curve["duty"] == pytest.approx(0.4, abs=0.02)
        assert curve["least"] == pytest.approx(1, abs=0.01)
        assert curve["area"] == pytest.approx(curve["expected_area"], rel=0.03)
