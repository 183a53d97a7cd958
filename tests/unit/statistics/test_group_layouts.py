"""Layouts of the groups of a run that is over."""

from __future__ import annotations

from emulator.planner.group_layout import layout_of
from emulator.statistics.group_layouts import InstanceLayouts
from tests.support.runs import collective, table


def test_the_manifest_says_where_members_were() -> None:
    samples = table([*collective([0] * 4, [9] * 4, instance=0), *collective([0] * 2, [9] * 2, instance=1)])
    places = {"host_index": [0, 0, 1, 1], "interface_index": [0, 1, 0, 1]}
    assert InstanceLayouts(samples, places).of(0) is layout_of("aabb", [0, 1, 0, 1])
    assert InstanceLayouts(samples, places).of(1) is layout_of("aa", [0, 1])
    assert InstanceLayouts(samples, {"host_index": [0, 0, 1, 1], "interface_index": []}).of(1) is layout_of(
        "aa", [0, 0]
    )
    assert InstanceLayouts(samples, {}).of(0) is None
