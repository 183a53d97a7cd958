"""The frames of a lab between two real ports add up."""

from pathlib import Path

from emulator.device.lab.between import PortPair, RealPort
from emulator.device.lab.labs import Labs
from emulator.device.lab.state import LabStore
from emulator.device.profile.standing import Passed
from emulator.views.columns.figures import NONE
from emulator.views.terminal.between_table import render
from tests.support.terminal import shown

PORTS = (RealPort("eth1", "m", 1500), RealPort("eth2", "m", 1500))
PAIR = PortPair(PORTS, 1, profile="p", rules=[("one", "drop once"), ("slow", "shape 50%")])
COUNTED = {
    "eth1": {"rx_packets": 100, "tx_packets": 40, "rx_dropped": 1, "rx_bytes": 100_000, "tx_bytes": 4000},
    "eth2": {"rx_packets": 50, "tx_packets": 90, "qdisc_drops": 4, "rx_bytes": 5000, "tx_bytes": 90_000},
}
STATUS = Passed(PAIR, COUNTED, {"one": 10}, {"profile_drops": 10, "profile_duplicates": 3})


def test_what_no_counter_explains_is_named() -> None:
    assert STATUS.queue_drops == 5
    assert STATUS.unaccounted == 150 + 3 - 130 - 10 - 5
    assert STATUS.to_json()["totals"] == {
        "profile_drops": 10,
        "profile_duplicates": 3,
        "queue_drops": 5,
        "unaccounted": 8,
    }


def test_rules_that_count_nothing_have_no_figure(tmp_path: Path) -> None:
    assert [rule["frames"] for rule in STATUS.to_json()["rules"]] == [10, None]
    state = Labs(LabStore(tmp_path)).state_between(PAIR, "a")
    text = " ".join(shown(render(state, STATUS)).split())
    assert f"one drop once 10 slow shape 50% {NONE} frames" in text
    assert text.endswith("dropped by rules 10 · by full queues 5 · duplicated 3 · not accounted for 8")
