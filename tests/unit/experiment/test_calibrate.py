from __future__ import annotations

from pathlib import Path

import pytest

from emulator.experiment.calibrate import can_be_cabled
from emulator.topology.load import load_topology
from emulator.topology.model import default_loopback

TOPOLOGIES = Path(__file__).parents[3] / "topologies"


@pytest.mark.parametrize(
    ("name", "is_possible"), [("two-hosts-switch", True), ("eight-hosts-switch", True), ("loopback", False)]
)
def test_hosts_of_a_lab_can_be_cabled(name: str, is_possible: bool) -> None:
    assert can_be_cabled(load_topology(TOPOLOGIES / f"{name}.yaml", ranks=0)) is is_possible


def test_loopback_cannot_be_cabled() -> None:
    assert not can_be_cabled(default_loopback(2))


def test_hosts_of_other_machines_cannot_be_cabled(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    text = (TOPOLOGIES / "two-hosts-switch.yaml").read_text()
    path.write_text(text.replace("kind: bridge", "kind: physical"))
    found = load_topology(path, ranks=0)
    kinds = {switch.kind for switch in found.network.switches}
    assert can_be_cabled(found) is ("physical" not in kinds)
