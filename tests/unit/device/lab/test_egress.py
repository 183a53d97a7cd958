"""Through which interface traffic leaves."""

import pytest

from emulator.device.lab.egress import AddressPair, address_pairs, require_egress
from emulator.errors import PlanError
from emulator.topology.model import Topology
from tests.support.skips import need


def test_ways_lead_from_every_own_port_to_every_port_elsewhere(topology: Topology) -> None:
    found = list(address_pairs(topology, [0]))
    assert len(found) == 7
    assert found[0] == AddressPair("h0", "eth0", "198.18.1.1", "198.18.2.1")


def test_a_run_may_leave_through_the_named_interface_only() -> None:
    need("ip")
    way = AddressPair("h0", "lo", "127.0.0.1", "127.0.0.2")
    require_egress([way], devices={})
    require_egress([AddressPair("h0", "eth0", "127.0.0.1", "127.0.0.2")], devices={("h0", "eth0"): "lo"})
    with pytest.raises(PlanError, match=r"h0:eth0 from 127\.0\.0\.1 to 127\.0\.0\.2 would leave through lo, not"):
        require_egress([AddressPair("h0", "eth0", "127.0.0.1", "127.0.0.2")], devices={})
