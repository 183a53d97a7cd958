"""One device under test, watched for several jobs."""

from emulator.controller.recording.session_observer import DutCounters, shared_monitors
from emulator.results.run_folder.schema import Columns


class Monitor:
    """A device with these readings."""

    def __init__(self, *readings: Columns) -> None:
        self.readings, self.begun = list(readings), 0

    def begin(self) -> None:
        self.begun += 1

    def counters(self) -> Columns | None:
        return self.readings.pop(0) if self.readings else None


def read(view: DutCounters) -> list[Columns]:
    """All that it has now."""
    found = []
    while (counters := view.counters()) is not None:
        found.append(counters)
    return found


def test_every_job_gets_every_reading() -> None:
    monitor = Monitor({"rx": [1]}, {"rx": [2]})
    first, second = shared_monitors(monitor, 2)
    assert read(first) == [{"rx": [1]}, {"rx": [2]}]
    monitor.readings = [{"rx": [3]}]
    assert read(second) == [{"rx": [1]}, {"rx": [2]}, {"rx": [3]}]
    assert read(first) == [{"rx": [3]}]


def test_the_device_begins_with_the_first_job_alone() -> None:
    monitor = Monitor()
    for view in shared_monitors(monitor, 3):
        view.begin()
    assert monitor.begun == 1


def test_one_job_has_the_monitor_itself() -> None:
    monitor = Monitor()
    assert shared_monitors(monitor, 1) == [monitor]
