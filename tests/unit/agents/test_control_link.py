"""An agent stops by itself when its controller has said nothing for too long, and only then."""

from agents.control_link import CHECK_S, LONGEST_S, Lease
from emulator.host.core_wait import CoreTime

LEASE_S = 10.0


class World:
    """A clock, and a controller that runs on this host if `ran` is told."""

    def __init__(self, ran: int | None = None) -> None:
        self.now, self.ran = 0.0, ran
        self.lease = Lease(now=lambda: self.now, core_time=self._core_time)

    def _core_time(self) -> CoreTime | None:
        return None if self.ran is None else CoreTime(self.ran, 0)

    def ends_after(self, most_s: float) -> float | None:
        """When the agent stops, if it does within so many seconds of checks."""
        began = self.now
        while self.now - began < most_s:
            self.now += CHECK_S
            if self.lease.overdue():
                return self.now - began
        return None


def test_without_a_lease_an_agent_waits_for_ever() -> None:
    assert World().ends_after(1000) is None


def test_it_runs_out_when_the_controller_is_silent() -> None:
    world = World()
    world.lease.give(LEASE_S)
    assert world.ends_after(100) == LEASE_S + CHECK_S
    assert str(world.lease.overdue()) == "aborted: the controller has sent nothing for 10 s"


def test_whatever_the_controller_says_renews_it() -> None:
    world = World()
    world.lease.give(LEASE_S)
    for _ in range(5):
        assert world.ends_after(LEASE_S - 1) is None
        world.lease.heard()
    assert world.ends_after(100) == LEASE_S + CHECK_S


def test_an_agent_that_did_not_run_reads_what_was_sent_meanwhile() -> None:
    world = World()
    world.lease.give(LEASE_S)
    world.now += 60  # stopped
    assert world.lease.overdue() is None
    assert world.ends_after(100) == LEASE_S + CHECK_S


def test_a_busy_controller_of_this_host_is_waited_for_and_a_stopped_one_is_not() -> None:
    world = World(ran=0)
    world.lease.give(LEASE_S)
    for _ in range(100):
        assert world.ends_after(1) is None
        world.ran = (world.ran or 0) + 500_000_000
    ended = world.ends_after(100)
    assert ended <= 2 * (LEASE_S + 2)


def test_no_controller_has_an_agent_play_for_longer_than_its_own_limit_without_being_heard() -> None:
    world = World()
    world.lease.give(1e6)
    assert world.ends_after(1000) == LONGEST_S + CHECK_S


def test_a_controller_that_gives_no_lease_is_given_up_once_traffic_has_begun() -> None:
    world = World()
    world.lease.begin()
    assert world.ends_after(1000) == LONGEST_S + CHECK_S
    world = World()
    world.lease.give(LEASE_S)
    world.lease.begin()
    assert world.ends_after(100) == LEASE_S + CHECK_S
