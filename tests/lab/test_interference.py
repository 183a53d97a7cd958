"""Two equal jobs at one port of a lab: twice as long while both send, as long as alone when they do not."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import succeed
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
    succeed("trace", "generate", "collective", *trace, cwd=tmp_path)
    jobs = "".join(f"  - {{name: {name}, trace: {{path: trace}}, warmup: 1, pace: continuous}}\n" for name in "ab")
    (tmp_path / "session.yaml").write_text(f"charkha: 1\njobs:\n{jobs}observe: {{report: false}}\n")
    made.up()
    yield made
    made.down()


def starts(lab: Lab, values: str, *options: object) -> list[dict[str, Any]]:
    """The points of a sweep over the start of the second job."""
    swept = ("sweep", "-f", "session.yaml", "--vary", f"job.start={values}", *TRANSPORT, *options, "--json")
    finished = lab.play(*swept, out="out", timeout_s=900)
    assert finished.code == 0, finished.stderr
    return json.loads(finished.stdout)["points"]


@pytest.mark.timeout(300)
def test_two_jobs_that_send_all_the_time_take_twice_as_long(lab: Lab) -> None:
    (point,) = starts(lab, "0ms", "--compute", "skip", "--iterations", 30, "--repeat", 3)
    for one in point["jobs"]:
        assert one["factor"]["value"] == pytest.approx(2, rel=0.01)
    assert point["fairness"] == pytest.approx(1, abs=0.001)


@pytest.mark.timeout(300)
def test_jobs_that_begin_half_an_iteration_apart_do_not_meet(lab: Lab) -> None:
    """With a duty of 0.4, they meet from 0 to 0.4 of an iteration: begun together they take 1.4 times as long."""
    together, apart = starts(lab, "0ms,335ms", "--iterations", 10)
    assert [one["factor"]["value"] for one in together["jobs"]] == pytest.approx([1.4, 1.4], rel=0.03)
    assert [one["factor"]["value"] for one in apart["jobs"]] == pytest.approx([1, 1], rel=0.02)
