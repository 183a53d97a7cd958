from __future__ import annotations

import logging

import pytest

from emulator.experiment.play.log import RunLog


def test_events_of_a_run_are_logged_at_level_info(caplog: pytest.LogCaptureFixture) -> None:
    log = RunLog()
    with caplog.at_level(logging.INFO):
        log.waiting_for(["east", "west"])
        log.iteration_started(-1)
        log.iteration_started(0)
        log.iteration_done(0, 1_500_000)
        log.writing_trace()
    assert caplog.messages == [
        "waiting for agents: east, west",
        "iteration -1 begins (a warm-up)",
        "iteration 0 begins",
        "iteration 0 took 1.5 ms",
        "traffic is over, writing the measured trace",
    ]
