import os
from collections.abc import Iterator, Sequence
from itertools import count

import pytest

from emulator.device.counters.counters import CounterReading, Sampler
from emulator.errors import HostError
from tests.support.command import wait_for

HOUR_S = 3600.0


class Growing:
    """A source whose counter grows with every reading, and which can fail at one of them."""

    def __init__(self, device: str, *, fails_at: int | None = None, opens: bool = True) -> None:
        self._device, self._fails_at, self._opens = device, fails_at, opens
        self._read = 0
        self.is_closed = False

    def open(self) -> None:
        if not self._opens:
            raise HostError(f"{self._device} cannot be reached")

    def read(self) -> Sequence[CounterReading]:
        if self._read == self._fails_at:
            raise HostError(f"{self._device} no longer answers")
        self._read += 1
        return [CounterReading(self._device, "p0", "rx_packets", self._read)]

    def close(self) -> None:
        self.is_closed = True


def clock() -> Iterator[int]:
    return count(100, 10)


def test_counters_are_read_before_and_after_a_run_on_its_clock() -> None:
    """A reading has the time at which it was complete: nothing that it counts happened later."""
    source, ticks = Growing("sw0"), clock()
    sampler = Sampler([source], clock_ns=lambda: next(ticks), period_s=HOUR_S)
    sampler.start()
    assert sampler.take() == {
        "time_ns": [100],
        "device": ["sw0"],
        "interface": ["p0"],
        "counter": ["rx_packets"],
        "value": [1],
    }
    assert sampler.take() is None
    sampler.stop()
    columns = sampler.take()
    assert columns is not None
    assert (columns["time_ns"], columns["value"], source.is_closed) == ([110], [2], True)
    sampler.stop()
    assert sampler.take() is None


def test_counters_are_read_again_each_period() -> None:
    source = Growing("sw0", fails_at=4)
    sampler = Sampler([source], period_s=0.001)
    sampler.start()
    wait_for(lambda: sampler.problems or None)
    sampler.stop()
    columns = sampler.take()
    assert columns is not None
    assert columns["value"] == [1, 2, 3, 4]


def test_a_device_that_stops_answering_does_not_end_the_run() -> None:
    silent, other = Growing("sw0", fails_at=1), Growing("sw1")
    sampler = Sampler([silent, other], period_s=HOUR_S)
    sampler.start()
    sampler.stop()
    columns = sampler.take()
    assert columns is not None
    assert columns["device"] == ["sw0", "sw1", "sw1"]
    assert sampler.problems == ["sw0 no longer answers"]
    assert silent.is_closed


def test_a_device_that_cannot_be_reached_prevents_the_run() -> None:
    reached = Growing("sw0")
    with pytest.raises(HostError, match="sw1 cannot be reached"):
        Sampler([reached, Growing("sw1", opens=False)]).start()
    assert reached.is_closed


def test_a_sampler_that_was_never_started_can_be_stopped() -> None:
    Sampler([]).stop()


def test_only_the_thread_that_reads_counters_has_a_low_priority() -> None:
    usual, seen = os.getpriority(os.PRIO_PROCESS, 0), []

    class Looking(Growing):
        def read(self) -> Sequence[CounterReading]:
            seen.append(os.getpriority(os.PRIO_PROCESS, 0))
            return super().read()

    sampler = Sampler([Looking("sw0")])
    sampler.start()
    sampler.stop()
    assert set(seen) == {min(usual + 10, 19)}
    assert os.getpriority(os.PRIO_PROCESS, 0) == usual
