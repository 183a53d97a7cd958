"""Rules of a profile on real switches: the counters agree with the frames at the sockets."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from emulator.device.counters.watch import DutWatch
from emulator.device.profile.profile import Schedule
from emulator.errors import HostError
from tests.support.datagrams import Arrived, exchange
from tests.support.labs import RaisedLab, raised
from tests.support.namespaces import need_switch
from tests.support.profiles import TWO_HOSTS, profile_of

pytestmark = pytest.mark.usefixtures("lab_host")
ENDS = ("198.18.1.1", "198.18.2.1")
COUNT = 2000
MIDDLE, LAST, ACKNOWLEDGE = 0x07, 0x08, 0x11
NAK = 0x60


@pytest.fixture(params=["bridge", "router", "ovs"])
def lab(lab_host: None, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RaisedLab]:
    need_switch(request.param)
    with raised(tmp_path, TWO_HOSTS.replace("KIND", request.param).replace("RATE", "")) as one:
        yield one


@pytest.fixture
def bridge(lab_host: None, tmp_path: Path) -> Iterator[RaisedLab]:
    with raised(tmp_path, TWO_HOSTS.replace("KIND", "bridge").replace("RATE", ", rate: 100Mbit")) as one:
        yield one


@contextmanager
def in_force(lab: RaisedLab, folder: Path, rules: str) -> Iterator[DutWatch]:
    schedule = Schedule(profile_of(folder, rules))
    watch = DutWatch([], topology=lab.topology, lab=lab.state, schedule=schedule, store=lab.store)
    with watch:
        watch.begin(0)
        yield watch
        watch.end()


def send(lab: RaisedLab, opcode: int, *, count: int = COUNT, syndrome: int = 0) -> Arrived:
    return exchange(lab.exec_prefix("h0"), lab.exec_prefix("h1"), ENDS, count=count, opcode=opcode, syndrome=syndrome)


def grown(watch: DutWatch) -> dict[tuple[str, str, str], int]:
    """(device, interface, counter) → last value minus first."""
    columns = watch.counters()
    assert columns is not None
    series: dict[tuple[str, str, str], list[int]] = {}
    for *name, value in zip(*(columns[c] for c in ("device", "interface", "counter", "value")), strict=True):
        series.setdefault(tuple(name), []).append(value)
    return {name: values[-1] - values[0] for name, values in series.items()}


def test_every_50th_middle_frame_is_dropped_and_no_other(lab: RaisedLab, tmp_path: Path) -> None:
    with in_force(lab, tmp_path, '  - {name: lost, drop: {every: 50}, opcode: middle, port: "sw0:p1"}\n') as watch:
        assert send(lab, MIDDLE).datagrams == COUNT - COUNT // 50
        assert send(lab, LAST).datagrams == COUNT
    counted = grown(watch)
    assert counted["sw0", "p1", "profile_drops"] == counted["sw0", "p1", "profile_drops[lost]"] == COUNT // 50
    assert counted["sw0", "p0", "rx_packets"] == 2 * COUNT
    assert counted["sw0", "p1", "tx_packets"] == counted["h1", "eth0", "rx_packets"] == 2 * COUNT - COUNT // 50


def test_marked_frames_arrive_marked(lab: RaisedLab, tmp_path: Path) -> None:
    with in_force(lab, tmp_path, "  - {mark: {share: 30%}}\n") as watch:
        arrived = send(lab, LAST)
    assert arrived.datagrams == COUNT
    assert arrived.marked == grown(watch)["sw0", "", "ecn_marked"]
    assert 0.2 * COUNT < arrived.marked < 0.4 * COUNT


def test_naks_are_distinguished_from_acknowledgements(lab: RaisedLab, tmp_path: Path) -> None:
    with in_force(lab, tmp_path, "  - {drop: {every: 2}, opcode: nak}\n"):
        assert send(lab, ACKNOWLEDGE, syndrome=0x1F).datagrams == COUNT
        assert send(lab, ACKNOWLEDGE, syndrome=NAK).datagrams == COUNT // 2


def test_copies_arrive_and_are_counted(lab: RaisedLab, tmp_path: Path) -> None:
    with in_force(lab, tmp_path, '  - {duplicate: {every: 10}, port: "sw0:p1"}\n') as watch:
        arrived = send(lab, LAST)
    assert grown(watch)["sw0", "p1", "profile_duplicates"] == arrived.twice == COUNT // 10
    assert arrived.datagrams == COUNT + arrived.twice


def test_a_policer_and_a_queue_drop_excess_frames(bridge: RaisedLab, tmp_path: Path) -> None:
    with in_force(bridge, tmp_path, '  - {police: {rate: 5Mbit}, port: "sw0:p1"}\n') as watch:
        arrived = send(bridge, LAST)
    counted = grown(watch)
    lost = counted["sw0", "p1", "profile_drops"] + counted["sw0", "p1", "qdisc_drops"]
    assert arrived.datagrams == COUNT - lost
    assert lost > 0


def qdiscs(lab: RaisedLab) -> Any:
    listed = subprocess.run([*lab.exec_prefix("sw0"), "tc", "-j", "qdisc"], capture_output=True, text=True, check=True)
    return [{"handle": one.get("handle"), "options": one.get("options")} for one in json.loads(listed.stdout)]


def test_a_slower_port_recovers_its_rate(bridge: RaisedLab, tmp_path: Path) -> None:
    before = qdiscs(bridge)
    with in_force(bridge, tmp_path, "  - {shape: {rate: 90%}}\n"):
        rates = [one["options"]["rate"] for one in qdiscs(bridge) if one["handle"] == "2:"]
        assert rates == [11_250_000, 11_250_000]
    assert qdiscs(bridge) == before


def rules(lab: RaisedLab) -> str:
    return subprocess.run([*lab.exec_prefix("sw0"), "nft", "list", "ruleset"], capture_output=True, text=True).stdout


def test_a_profile_leaves_nothing_behind(bridge: RaisedLab, tmp_path: Path) -> None:
    with in_force(bridge, tmp_path, "  - {drop: {every: 2}}\n  - {duplicate: {every: 2}}\n"):
        assert "rule_0" in rules(bridge)
        assert "rule_1_0" in rules(bridge)
    assert rules(bridge) == ""
    assert {path.name for path in bridge.store.folder(bridge.state.lab_id).iterdir()} == {"state.json"}


def has_netem(lab: RaisedLab) -> bool:
    words = [*lab.exec_prefix("h0"), "tc", "qdisc", "add", "dev", "lo", "root", "netem"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def test_a_delay_needs_netem(bridge: RaisedLab, tmp_path: Path) -> None:
    before = qdiscs(bridge)
    delayed = in_force(bridge, tmp_path, "  - {delay: {time: 1ms}}\n")
    if has_netem(bridge):
        with delayed:
            assert any("netem" in str(one) for one in qdiscs(bridge))
            assert send(bridge, LAST, count=10).datagrams == 10
    else:
        with pytest.raises(HostError, match=r"'delay-0' cannot be applied at sw0: .*`modprobe sch_netem`"), delayed:
            pass
        assert qdiscs(bridge) == before
    assert send(bridge, LAST, count=10).datagrams == 10
