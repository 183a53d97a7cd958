"""Traffic between peers in closed form is that of the schedules, for every algorithm, group and size."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.errors import PlanError
from emulator.planner.algorithms import schedule
from emulator.planner.built_in import BUILT_IN
from emulator.planner.built_in import BY_LAYOUT as LAID_OUT
from emulator.planner.collectives.patterns import CHUNK_BYTES
from emulator.planner.group_layout import GroupLayout, layout_of
from emulator.planner.schedule import Collective
from emulator.planner.traffic.operation import peer_totals, phases, transfers_per_group
from emulator.planner.traffic.phase import Phase
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


EVERY = [(kind, name) for kind, named in BUILT_IN.items() for name in named]
RINGS = [(kind, "ring:channels=3") for kind in (CommKind.ALL_REDUCE, CommKind.ALL_GATHER, CommKind.REDUCE_SCATTER)]
BY_LAYOUT = [(kind, name) for kind, named in BUILT_IN.items() for name in named if name in LAID_OUT] + RINGS


def ident(case: object) -> str:
    return case.label if isinstance(case, CommKind) else str(case)


def scheduled(name: str, collective: Collective) -> Counter[int]:
    """Bytes that a member sends to each peer, step by step."""
    found: Counter[int] = Counter()
    for lane in schedule(name, collective):
        for step in lane:
            for transfer in step.sends:
                found[transfer.peer] += transfer.size
    return found


def by_peer(phase: Phase) -> Counter[int]:
    found: Counter[int] = Counter()
    for peer, size in zip(phase.receivers.tolist(), phase.sizes.tolist(), strict=True):
        found[peer] += size
    return found


def check(
    kind: CommKind, name: str, members: int, size_bytes: int, root: int, layout: GroupLayout | None = None
) -> None:
    sent = np.zeros(members, dtype=np.int64)
    received = np.zeros(members, dtype=np.int64)
    views = [Collective(kind, members, member, size_bytes, root, layout=layout) for member in range(members)]
    for view in views:
        mine = peer_totals(name, view, np.array([view.member]))
        assert set(mine.senders.tolist()) <= {view.member}
        assert by_peer(mine) == scheduled(name, view)
        sent[view.member] += mine.sizes.sum()
        np.add.at(received, mine.receivers, mine.sizes)
    totals = peer_totals(name, views[0])
    assert np.bincount(totals.senders, totals.sizes, members).tolist() == sent.tolist()
    assert np.bincount(totals.receivers, totals.sizes, members).tolist() == received.tolist()


@pytest.mark.parametrize(("kind", "name"), EVERY, ids=ident)
@pytest.mark.parametrize("members", [1, 2, 3, 4, 7, 8, 13])
def test_every_small_group(kind: CommKind, name: str, members: int) -> None:
    for size_bytes in (0, 1, members + 1, 1000, 3 * CHUNK_BYTES + 5) if kind is not CommKind.BARRIER else (0,):
        check(kind, name, members, size_bytes, root=members // 2 if kind.label in ROOTED else 0)


ROOTED = ("broadcast", "reduce", "gather", "scatter")


@pytest.mark.parametrize(("kind", "name"), EVERY, ids=ident)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_any_group(kind: CommKind, name: str, data: st.DataObject) -> None:
    members = data.draw(st.integers(1, 33), label="members")
    size_bytes = data.draw(st.integers(0, 5000), label="size_bytes")
    root = data.draw(st.integers(0, members - 1), label="root") if kind.label in ROOTED else 0
    check(kind, name, members, size_bytes, root)


@pytest.mark.parametrize(("kind", "name"), EVERY, ids=ident)
def test_phases_are_the_steps(kind: CommKind, name: str) -> None:
    view = Collective(kind, 8, 0, 8 * 1024 if kind is not CommKind.BARRIER else 0)
    found = list(phases(name, view))
    lanes = [max(len(list(lane)) for lane in schedule(name, Collective(kind, 8, m, view.size_bytes))) for m in range(8)]
    chunked = name in ("double_binary_tree", "tree") or (name == "ring" and kind.label in ROOTED)
    assert sum(phase.steps for phase in found) == max(lanes) or chunked
    assert sum(len(phase.sizes) for phase in found) <= transfers_per_group(name, kind, 8) * 2


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(PlanError, match="magic"):
        list(phases("magic", Collective(CommKind.ALL_REDUCE, 4, 0, 100)))


@pytest.mark.parametrize(("kind", "name"), BY_LAYOUT, ids=ident)
@settings(max_examples=15, deadline=None)
@given(
    places=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=12),
    size_bytes=st.integers(1, 200) | st.integers(1, 1 << 22),
)
def test_closed_forms_are_the_schedules_on_any_layout(
    kind: CommKind, name: str, places: list[tuple[int, int]], size_bytes: int
) -> None:
    layout = layout_of([node for node, _ in places], [rail for _, rail in places])
    check(kind, name, len(places), size_bytes, 0, layout)
