"""Faults planted in a lab are found, and their port is named, see planted_faults.py."""

import pytest

from tests.lab.planted_faults import measure, summary_text
from tests.support.full import measures

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow, measures]
DRAWS = 60


@pytest.mark.timeout(1800)
def test_the_port_of_a_fault_is_named_in_95_of_100_draws() -> None:
    results = measure(DRAWS, seed=1)
    assert sum(found.is_right for _, found in results) >= 0.95 * DRAWS, summary_text(results)
