"""Lookup of nodes and ports in a design."""

import pytest

from emulator.device.lab.design import make_design
from tests.support.topologies import shipped_topology


def test_nodes_and_ports_are_found_by_the_names_of_the_topology() -> None:
    design = make_design(shipped_topology("two-hosts-switch"), "x")
    assert design.node("h1").namespace == "charkha-x-h1"
    assert design.node("h1").is_host
    assert not design.node("sw0").is_host
    assert design.node("sw0").port("p1").peer.node == "h1"


def test_unknown_nodes_and_ports_are_key_errors_with_their_name() -> None:
    design = make_design(shipped_topology("two-hosts-switch"), "x")
    with pytest.raises(KeyError, match="h9"):
        design.node("h9")
    with pytest.raises(KeyError, match="p9"):
        design.node("sw0").port("p9")
