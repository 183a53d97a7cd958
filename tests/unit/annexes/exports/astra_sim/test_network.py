"""Dimensions of the simulated network, and the file for ASTRA-sim."""

from __future__ import annotations

import pytest
import yaml

from emulator.annexes.exports.astra_sim.fit import Fit
from emulator.annexes.exports.astra_sim.network import Dimension, dimensions, to_yaml
from emulator.annexes.exports.astra_sim.observe import LinkClass

SOME = Fit(1000.0, float(1 << 30), (), True)


def test_equal_blocks_of_ranks_on_hosts_make_two_dimensions() -> None:
    both = {LinkClass.WITHIN_HOST: SOME, LinkClass.BETWEEN_HOSTS: SOME}
    assert [(one.ranks, one.link) for one in dimensions(4, [0, 0, 1, 1], both)] == [
        (2, LinkClass.WITHIN_HOST),
        (2, LinkClass.BETWEEN_HOSTS),
    ]


@pytest.mark.parametrize("host_index", [[0, 1, 0, 1], [0, 0, 0, 1]])
def test_ranks_that_are_not_in_equal_blocks_make_one_dimension(host_index: list[int]) -> None:
    both = {LinkClass.WITHIN_HOST: SOME, LinkClass.BETWEEN_HOSTS: SOME}
    assert dimensions(4, host_index, both) == [Dimension(4, LinkClass.BETWEEN_HOSTS, SOME)]


@pytest.mark.parametrize("link", LinkClass)
def test_the_only_link_class_with_a_fit_gives_its_fit_and_its_name(link: LinkClass) -> None:
    assert dimensions(4, [0, 0, 1, 1], {link: SOME}) == [Dimension(4, link, SOME)]


def test_one_host_is_one_switch() -> None:
    assert dimensions(4, [], {}) == [Dimension(4, LinkClass.WITHIN_HOST, None)]


def test_the_file_has_the_units_of_the_simulator() -> None:
    assert yaml.safe_load(to_yaml([Dimension(4, LinkClass.WITHIN_HOST, SOME)])) == {
        "topology": ["Switch"],
        "npus_count": [4],
        "bandwidth": [1.0],
        "latency": [500.0],
    }


def test_placeholders_are_marked() -> None:
    text = to_yaml([Dimension(4, LinkClass.WITHIN_HOST, None)])
    assert "# PLACEHOLDERS" in text
    assert yaml.safe_load(text)["bandwidth"] == [1.0]
