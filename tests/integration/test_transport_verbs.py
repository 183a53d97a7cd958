"""The verbs transport with the software NIC at both ends; tests/guest has it with real RDMA devices."""

from __future__ import annotations

from functools import partial

import pytest

from agents.transports.verbs.transport import VerbsTransport
from emulator.transports.verbs_options import VerbsOptions
from tests.integration.socket_bed import SocketBed, play
from tests.integration.transport_conformance import CASES, Case


class VerbsBed(SocketBed[VerbsTransport]):
    """A number of agents with the software NIC."""

    def __init__(self, agents: int, *, message_bytes: int = 4096, slots: int = 16, hosts: str = "127.0.6.{}") -> None:
        super().__init__()
        self.message_bytes, self._hosts = message_bytes, hosts
        options = VerbsOptions(software_nic="all", ring_slots=slots)
        self.transports = [
            VerbsTransport(message_bytes=message_bytes, options=options, run="conformance") for _ in range(agents)
        ]

    def host(self, rank: int) -> str:
        return self._hosts.format(rank + 1)


run = partial(play, VerbsBed)


@pytest.mark.parametrize("slots", [1, 16])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_conformance(case: Case, slots: int) -> None:
    run(case, slots=slots)
