"""Closed forms of algorithms by layout; that they are the schedules is in test_closed_forms."""

from __future__ import annotations

import numpy as np

from emulator.planner.schedule import Collective
from emulator.planner.traffic.phases import peer_totals, phases
from emulator.trace.meaning.model import CommKind
from tests.support.layouts import even_layout

S = 6 * 8 * 1000


def test_pxn_has_a_phase_on_the_node_and_one_for_each_distance() -> None:
    layout = even_layout(4, 2)
    found = list(phases("pxn", Collective(CommKind.ALL_TO_ALL, 8, 0, S, layout=layout)))
    nodes = np.array(layout.node_of)
    distances = [set(((nodes[one.receivers] - nodes[one.senders]) % 4).tolist()) for one in found]
    assert distances == [{0}, {1}, {2}, {3}]
    assert all(len(set(one.receivers.tolist())) == len(one.receivers) for one in found[1:])


def test_a_hierarchical_all_reduce_goes_in_and_out_again() -> None:
    found = list(phases("hierarchical", Collective(CommKind.ALL_REDUCE, 8, 0, S, layout=even_layout(4, 2))))
    assert [(len(one.senders), one.steps) for one in found] == [(8, 1), (8, 3), (8, 3), (8, 1)]


def test_thousands_of_ranks_are_arrays() -> None:
    view = Collective(CommKind.ALL_REDUCE, 2048, 0, 10**9, layout=even_layout(256, 8))
    assert int(peer_totals("hierarchical", view).sizes.sum()) == 256 * 2 * 7 * 10**9 + 2 * 255 * 10**9
