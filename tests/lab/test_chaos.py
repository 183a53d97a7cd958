"""Runs with faults at random moments end by name and leave nothing, see chaos.py; two hundred with CHARKHA_FULL=1."""

import pytest

from tests.lab.chaos import chaos, summary_text
from tests.support.full import measures

pytestmark = pytest.mark.usefixtures("lab_host")


def test_a_killed_command_and_a_small_limit_leave_nothing() -> None:
    outcomes = chaos(2, 3, ["command killed", "few descriptors"], patience=15)
    assert not [one for one in outcomes if one.problems], outcomes


@pytest.mark.slow
@measures
@pytest.mark.timeout(3600)
def test_two_hundred_faults_end_by_name_in_time_and_leave_nothing() -> None:
    outcomes = chaos(200, 1)
    assert not any(one.problems for one in outcomes), summary_text(outcomes)
