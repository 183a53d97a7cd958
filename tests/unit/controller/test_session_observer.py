"""One device under test, watched for several jobs."""

from emulator.controller.recording.session_observer import DutCounters, shared_monitors
from emulator.results.run_folder.schema import Columns


class Monitor:
    """A device with these readings."""

    def __init__(self, *readings: Columns) -> None:
        self.readings, self.begun = list(readings), list[int | None]()

    def begin(self, iteration: int | None) -> None:
        self.begun.append(iteration)

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


def test_iterations_of_the_device_are_those_of_the_first_job() -> None:
    monitor = Monitor()
    first, second, third = shared_monitors(monitor, 3)
    for iteration, view in enumerate((second, first, third, first)):
        view.begin(iteration)
    assert monitor.begun == [None, 1, None, 3]


def test_one_job_has_the_monitor_itself() -> None:
    monitor = Monitor()
    assert shared_monitors(monitor, 1) == [monitor]
