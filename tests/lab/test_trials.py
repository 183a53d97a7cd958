"""What docs/expect.md and docs/compare.md say of verdicts in labs, measured with few trials; the commands play many."""

from types import ModuleType

import pytest

from tests.lab import accounted_frames, clean_device, drifting_host, starved_agents
from tests.lab.trials import measure, summary_text
from tests.support.full import measures

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow, measures]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("of", "count"),
    [
        pytest.param(clean_device, 5, id="clean_device"),
        pytest.param(starved_agents, 3, id="starved_agents"),
        pytest.param(accounted_frames, 6, id="accounted_frames"),
        pytest.param(drifting_host, 3, id="drifting_host"),
    ],
)
def test_trials_in_a_lab_are_right(of: ModuleType, count: int) -> None:
    with of.opened() as play:
        trials = measure(count, play)
    assert not any(one.is_wrong for one in trials), summary_text(trials)
