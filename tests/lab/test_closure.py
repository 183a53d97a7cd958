"""A delay is planted in a lab, and its stamps are compared with those at the ports of its switch."""

import subprocess
from pathlib import Path

import pytest

from emulator.annexes.bench_kit.closure import closure_bed
from emulator.topology.load import load_topology
from tests.support.full import variant
from tests.support.topologies import SHIPPED

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow, variant]
RATE_BPS, HELD_US = 10**9, 3000


def masters(namespace: str) -> list[str]:
    """The ports of the switch that are in its bridge."""
    command = ["ip", "-n", namespace, "-br", "link", "show", "type", "bridge_slave"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True)
    return sorted(line.split("@")[0].split()[0] for line in shown.stdout.splitlines())


def test_frames_that_a_switch_holds_are_found_in_the_network_s_part(tmp_path: Path) -> None:
    topology = load_topology(SHIPPED / "two-hosts-switch.yaml", ranks=0)
    with closure_bed(topology, RATE_BPS, tmp_path) as bed:
        before = masters(bed.switch.namespace)
        delay, stamps = bed.delay(held_us=HELD_US), bed.stamps()
        assert masters(bed.switch.namespace) == before == ["p0", "p1"]
    assert delay.planted is not None
    assert stamps.planted is not None
    assert delay.planted > HELD_US * 1000 / 2  # held for at least so long, less what passing on takes without
    assert delay.found is not None
    assert delay.found > delay.planted / 2
    assert stamps.found is not None
    assert stamps.found > stamps.planted > 0  # the cables too
