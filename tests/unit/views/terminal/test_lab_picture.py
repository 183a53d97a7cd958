"""A lab in the terminal."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from emulator.device.lab.design import make_design
from emulator.device.lab.links import PortLink
from emulator.device.lab.state import UP, LabState, Owner
from emulator.device.lab.status import QUEUE_BACKLOG, QUEUE_DROPS, LabStatus
from emulator.topology.load import load_topology
from emulator.views.columns.figures import NONE
from emulator.views.terminal.lab_picture import draw
from tests.support.command import ROOT
from tests.support.terminal import shown

COUNTERS = {
    "tx_bytes": 3 << 20,
    "rx_bytes": 5,
    "tx_dropped": 1,
    "rx_dropped": 2,
    QUEUE_DROPS: 4,
    QUEUE_BACKLOG: 1 << 10,
}


def status(counters: Mapping[tuple[str, str], Mapping[str, int]] | None = None) -> LabStatus:
    topology = load_topology(ROOT / "topologies" / "leaf-spine-2x2.yaml", ranks=8)
    state = LabState(
        design=make_design(topology, "x1"),
        topology="leaf-spine.yaml",
        digest="",
        name="leaf-spine",
        created="2026-01-01T00:00:00.000+00:00",
        owner=Owner.me(),
        phase=UP,
    )
    return LabStatus(state, counters or {}, {("leaf0", "u0"): PortLink.DOWN}, processes=0)


def line_of(text: str, start: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.startswith(start))


def test_the_headline_says_which_lab_it_is_and_whether_it_is_up() -> None:
    headline = "lab x1 of root: up, leaf-spine (leaf-spine.yaml), since 2026-01-01T00:00:00.000+00:00"
    assert shown(draw(status())).splitlines()[0] == headline
    assert shown(draw(replace(status(), processes=1))).splitlines()[0] == f"{headline}, 1 process inside"
    assert shown(draw(replace(status(), processes=3))).splitlines()[0] == f"{headline}, 3 processes inside"


def test_every_switch_has_a_table_and_hosts_share_one() -> None:
    lines = shown(draw(status())).splitlines()
    titles = [line for line in lines if line and line.split(" (")[0] in ("spine0", "spine1", "leaf0", "leaf1", "hosts")]
    assert [title.split(" (")[0] for title in titles] == ["leaf0", "leaf1", "spine0", "spine1", "hosts"]


def test_a_port_has_its_peer_link_rate_and_mtu() -> None:
    text = shown(draw(status()))
    assert line_of(text, "u0 ")[:7] == ["u0", "<──>", "spine0:d0", "down", "20", "Mbit/s", "9000"]
    assert line_of(text, "u1 ")[:4] == ["u1", "<──>", "spine1:d0", NONE]


def test_counters_are_sizes_and_drops_are_summed() -> None:
    text = shown(draw(status({("leaf0", "u0"): COUNTERS})))
    assert " ".join(line_of(text, "u0 ")).endswith("3 MiB 5 B 1 KiB 7")


def test_counters_that_cannot_be_read_are_dashes() -> None:
    assert line_of(shown(draw(status())), "u0 ")[-4:] == [NONE] * 4


def test_hosts_have_their_addresses() -> None:
    lines = shown(draw(status()), width=160).splitlines()
    host = next(line for line in lines if line.startswith("h0:"))
    assert "leaf0:" in host
    assert host.split()[7].count(".") == 3


def test_a_lab_that_its_host_cannot_carry_says_so() -> None:
    found = status()
    limited = replace(found, state=replace(found.state, limited="links carry 8 Gbit/s, this host 2 Gbit/s"))
    assert "tester-limited: links carry 8 Gbit/s, this host 2 Gbit/s" in shown(draw(limited)).splitlines()


@pytest.mark.parametrize("width", [70, 80, 100, 140])
def test_every_line_fits_the_width(width: int) -> None:
    text = shown(draw(status({("leaf0", "u0"): COUNTERS})), width=width)
    assert max(map(len, text.splitlines())) <= width
