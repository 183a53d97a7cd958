import asyncio
from collections.abc import Callable, Sequence

import pytest
import uvloop

from emulator.host import clock as timer
from emulator.host.clock import TimerfdClock
from tests.support.limits import open_descriptors


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"], autouse=True)
def loop_factory(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    return request.param


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not reached():  # noqa: ASYNC110 the clock under test knows nothing of events
            await asyncio.sleep(0)


async def finished(seen: Sequence[object], count: int) -> None:
    await until(lambda: len(seen) >= count)


async def test_alarms_fire_in_order_and_never_early() -> None:
    with TimerfdClock() as clock:
        start = clock.now()
        seen: list[tuple[int, int]] = []
        for delay_us in (3000, 1000, 2000, 1000):
            when = start + delay_us * 1000
            clock.call_at(when, lambda when=when: seen.append((when, clock.now())))
        await finished(seen, 4)
    assert [when - start for when, _ in seen] == [1_000_000, 1_000_000, 2_000_000, 3_000_000]
    assert all(now >= when for when, now in seen)


async def test_alarms_due_together_fire_in_the_order_they_were_set() -> None:
    with TimerfdClock() as clock:
        when = clock.now() + 2_000_000
        seen: list[int] = []
        for index in range(50):
            clock.call_at(when, lambda index=index: seen.append(index))
        await finished(seen, 50)
    assert seen == list(range(50))


async def test_alarms_that_take_long_together_leave_others_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer, "TURN_NS", 0)
    with TimerfdClock() as clock:
        turns, seen = 0, list[int]()
        for _ in range(50):
            clock.call_at(clock.now(), lambda: seen.append(turns))
        while len(seen) < 50:
            turns += 1
            await asyncio.sleep(0)
    assert len(set(seen)) > 25


async def test_an_earlier_alarm_set_later_is_not_held_up() -> None:
    with TimerfdClock() as clock:
        seen: list[str] = []
        clock.call_at(clock.now() + 3600 * 10**9, lambda: seen.append("in an hour"))
        clock.call_at(clock.now() + 1_000_000, lambda: seen.append("soon"))
        await finished(seen, 1)
    assert seen == ["soon"]


@pytest.mark.parametrize("when", [-5, 0, 1])
async def test_an_alarm_for_the_past_fires_but_never_from_inside_the_call(when: int) -> None:
    with TimerfdClock() as clock:
        seen: list[int] = []
        clock.call_at(when, lambda: seen.append(1))
        assert seen == []
        await finished(seen, 1)


async def test_alarms_that_set_alarms_for_the_past_leave_the_loop_room() -> None:
    with TimerfdClock() as clock:
        rounds = 0

        def again() -> None:
            nonlocal rounds
            rounds += 1
            clock.call_at(0, again)

        clock.call_at(0, again)
        await until(lambda: rounds >= 100)


async def test_a_callback_that_raises_does_not_stop_the_others() -> None:
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
    with TimerfdClock() as clock:
        seen: list[int] = []
        clock.call_at(0, lambda: [][0])
        clock.call_at(1, lambda: seen.append(1))
        await finished(seen, 1)
    assert [type(error) for error in errors] == [IndexError]


async def test_close_cancels_is_idempotent_and_frees_the_descriptor() -> None:
    before = open_descriptors()
    seen: list[int] = []
    clock = TimerfdClock()
    clock.call_at(clock.now() + 1_000_000, lambda: seen.append(1))
    clock.close()
    clock.close()
    clock.call_at(0, lambda: seen.append(2))
    await asyncio.sleep(0.01)
    assert seen == []
    assert open_descriptors() <= before


async def test_a_callback_may_close_the_clock() -> None:
    clock = TimerfdClock()
    seen: list[int] = []
    clock.call_at(0, clock.close)
    clock.call_at(1, lambda: seen.append(1))
    await asyncio.sleep(0.01)
    assert seen == []
