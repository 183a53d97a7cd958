"""Scale-up domains over every transport keep all that transports promise, on the real timer."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Self

import pytest
from _pytest.mark import ParameterSet

from agents.transports.base import Transport
from agents.transports.catalogue import make_transport
from emulator.control.conversation import DomainPlace
from emulator.host.clock import TimerfdClock
from emulator.roce.options import RoceOptions
from emulator.transports.registry import TRANSPORTS, TransportOptions, VerbsOptions
from tests.integration.socket_bed import SocketBed, play
from tests.integration.transport_conformance import CASES, Case
from tests.support.full import variant
from tests.support.loopback import NET

RANKS = 16
RATE_BPS = 500_000_000
OPTIONS: Mapping[str, TransportOptions] = {
    "verbs": VerbsOptions(software_nic="all"),
    "roce": RoceOptions(path_mtu=1024, qp_timeout=11, window_bytes=32768),
}


class DomainBed(SocketBed[Transport]):
    """As many domains as agents: the ranks of an agent are one."""

    def __init__(self, agents: int, *, name: str, message_bytes: int = 4096) -> None:
        super().__init__()
        self.message_bytes = message_bytes
        self._clock = TimerfdClock()
        self.transports: Sequence[Transport] = [
            make_transport(
                name,
                message_bytes=message_bytes,
                run="conformance",
                options=OPTIONS.get(name),
                domains=[DomainPlace(range(agent, RANKS, agents), RATE_BPS, 20_000)],
                clock=self._clock,
            )
            for agent in range(agents)
        ]

    def host(self, rank: int) -> str:
        return f"{NET}.0.{rank + 1}"

    async def __aenter__(self) -> Self:
        self._clock.__enter__()
        return await super().__aenter__()

    async def __aexit__(self, *exc_info: object) -> None:
        await super().__aexit__(*exc_info)
        self._clock.close()


run = partial(play, DomainBed)


def few(first: str) -> list[str | ParameterSet]:
    """All transports; all but one only in a full run."""
    return [first, *(pytest.param(one, marks=variant) for one in TRANSPORTS if one != first)]


@pytest.mark.parametrize("name", few("zmq"))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance_with_all_ranks_in_one_domain(case: Case, name: str) -> None:
    run(case, agents=1, name=name)


@pytest.mark.parametrize("name", few("roce"))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance_with_half_of_the_ranks_in_a_domain(case: Case, name: str) -> None:
    run(case, agents=2, name=name)
