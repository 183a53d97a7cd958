import logging

import pytest

from emulator.cli.player import RunLog
from emulator.results.run_folder.observer import IterationEnded, IterationStarted, WaitingFor, WritingTrace


def test_events_of_a_run_are_logged_at_level_info(caplog: pytest.LogCaptureFixture) -> None:
    log = RunLog()
    with caplog.at_level(logging.INFO):
        log.tell(WaitingFor(["east", "west"]))
        log.tell(IterationStarted(-1))
        log.tell(IterationStarted(0))
        log.tell(IterationEnded(0, 1_500_000))
        log.tell(WritingTrace())
    assert caplog.messages == [
        "waiting for agents: east, west",
        "iteration -1 begins (a warm-up)",
        "iteration 0 begins",
        "iteration 0 took 1.5 ms",
        "traffic is over, writing the measured trace",
    ]
