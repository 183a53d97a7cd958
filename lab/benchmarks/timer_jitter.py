"""How late alarms are, and what waiting for them costs: TimerfdClock beside the event loop's own timers.

python lab/benchmarks/timer_jitter.py --alarms 2000
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Callable

import numpy as np

from emulator.host.clock import TimerfdClock

SetAlarm = Callable[[int, Callable[[], None]], None]


async def one_after_another(set_alarm: SetAlarm, delays: list[int]) -> list[int]:
    """Lateness, in ns, of alarms of which each is set when the one before has fired."""
    late: list[int] = []
    for delay in delays:
        fired = asyncio.get_running_loop().create_future()
        when = time.monotonic_ns() + delay

        def note(when: int = when, fired: asyncio.Future[None] = fired) -> None:
            late.append(time.monotonic_ns() - when)
            fired.set_result(None)

        set_alarm(when, note)
        await fired
    return late


async def measure(name: str, set_alarm: SetAlarm, delays: list[int]) -> None:
    """Print the lateness of alarms, and the CPU time used per alarm."""
    cpu = time.process_time_ns()
    late = await one_after_another(set_alarm, delays)
    cpu = time.process_time_ns() - cpu
    p50, p99 = np.percentile(late, (50, 99)) / 1000
    print(f"{name:14} median {p50:8.1f} µs   p99 {p99:8.1f} µs   CPU per alarm {cpu / len(delays) / 1000:6.1f} µs")


async def idle(clock: TimerfdClock, seconds: float) -> None:
    """Print the CPU time used while one alarm is awaited."""
    done = asyncio.get_running_loop().create_future()
    cpu = time.process_time_ns()
    clock.call_at(clock.now() + int(seconds * 1e9), lambda: done.set_result(None))
    await done
    print(f"CPU used while idle for {seconds:g} s: {(time.process_time_ns() - cpu) / 1e6:.3f} ms")


async def compare(alarms: int, idle_s: float) -> None:
    """Both kinds of alarm, with delays of 20 µs to 4 ms."""
    loop = asyncio.get_running_loop()
    delays = [random.Random(1).randint(20_000, 4_000_000) for _ in range(alarms)]
    with TimerfdClock() as clock:
        await one_after_another(clock.call_at, delays[:100])  # the libraries' own threads come to rest
        await measure("TimerfdClock", clock.call_at, delays)
        await measure("loop.call_at", lambda when, callback: void(loop.call_at(when / 1e9, callback)), delays)
        await idle(clock, idle_s)


def void(_: object) -> None:
    """Drop a result."""


def loops() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The event loops that are installed."""
    try:
        import uvloop
    except ImportError:
        return {"asyncio": asyncio.new_event_loop}
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def main() -> None:
    """Run on every event loop there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alarms", type=int, default=1000)
    parser.add_argument("--idle", type=float, default=2.0, help="seconds")
    options = parser.parse_args()
    for name, factory in loops().items():
        print(f"on {name}")
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(compare(options.alarms, options.idle))


if __name__ == "__main__":
    main()
