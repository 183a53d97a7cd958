"""What a transport has without doing anything for it."""

from agents.transports.base import Endpoint, RankPort, Transport


class Bare(Transport):
    """A transport that only opens endpoints."""

    name = "bare"

    async def open(self, rank: int, host: str) -> Endpoint:
        raise NotImplementedError

    async def __aenter__(self) -> Transport:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        return None


def test_a_transport_without_pacing_accepts_ports() -> None:
    Bare().use_ports({0: RankPort(number=1, cap_bps=10**9)})


def test_a_transport_need_not_report_facts_or_silence() -> None:
    assert Bare().facts() == {}
    assert Bare().silence() is None


def test_a_port_has_no_cap_unless_it_is_given_one() -> None:
    assert RankPort() == RankPort(number=0, line_rate_bps=0, cap_bps=0)
