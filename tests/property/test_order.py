"""Canonical order equals its definition; what is proven to finish does finish, and what is refused cannot."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from emulator.errors import TraceError
from emulator.trace.analysis.critical_path import longest_path_ns
from emulator.trace.meaning.meaning import TraceOptions
from emulator.trace.meaning.model import CommKind, RankTrace, Workload
from emulator.trace.meaning.order import canonical_order
from emulator.trace.meaning.trace_graphs import layout_of, merged_graph
from emulator.trace.meaning.workload import prove, split_traces
from tests.support.traces import Node, coll, node, rank_trace, recv, send

# --- canonical order ---


@st.composite
def any_rank(draw: st.DrawFn) -> list[Node]:
    """Nodes with any dependencies among them, in any file order; often circular."""
    ids = draw(st.lists(st.integers(0, 40), unique=True, min_size=1, max_size=12))
    dependencies = st.lists(st.sampled_from(ids), max_size=1)
    return [node(i, deps=draw(dependencies), ctrl=draw(dependencies)) for i in ids]


def smallest_ready_first(nodes: Sequence[Node]) -> list[int] | None:
    """The definition: ids in canonical order, None if dependencies are circular."""
    needed = {item.id: {*item.deps, *item.ctrl} for item in nodes}
    order: list[int] = []
    while needed:
        ready = [i for i, deps in needed.items() if deps <= set(order)]
        if not ready:
            return None
        order.append(min(ready))
        del needed[order[-1]]
    return order


@given(any_rank())
def test_canonical_order_is_smallest_ready_first(nodes: list[Node]) -> None:
    expected = smallest_ready_first(nodes)
    trace = rank_trace(0, nodes)
    if expected is None:
        with pytest.raises(TraceError, match="dependencies form a cycle"):
            canonical_order(trace)
        return
    order = canonical_order(trace)
    assert trace.node_id[order.order].tolist() == expected
    assert order.order[order.position].tolist() == list(range(len(nodes)))
    for position, i in enumerate(expected):
        item = next(item for item in nodes if item.id == i)
        found = order.dep_position[order.dep_offset[position] : order.dep_offset[position + 1]].tolist()
        assert found == sorted(expected.index(dep) for dep in {*item.deps, *item.ctrl})


# --- the proof against a game of tokens ---


@st.composite
def any_workload(draw: st.DrawFn) -> Workload:
    """A few ranks whose nodes match, in orders and with dependencies that may well deadlock."""
    size = draw(st.integers(1, 4))
    names = {name: ranks for name, ranks in draw(group_files(size)).items() if ranks}
    plans: list[list[tuple[str, int | str]]] = [[("comp", 0)] * draw(st.integers(0, 3)) for _ in range(size)]
    for name in ["", *names]:
        for _ in range(draw(st.integers(0 if name else 1, 2))):
            for rank in names.get(name, range(size)):
                plans[rank].append(("coll", name))
    for _ in range(draw(st.integers(0, 4)) if size > 1 else 0):
        source, target = draw(st.permutations(range(size)))[:2]
        plans[source].append(("send", target))
        plans[target].append(("recv", source))
    traces = [draw(rank_from(rank, plan)) for rank, plan in enumerate(plans)]
    return split_traces(traces, groups=names, options=TraceOptions())


def group_files(size: int) -> st.SearchStrategy[dict[str, list[int]]]:
    subset = st.lists(st.sampled_from(range(size)), unique=True)
    return st.fixed_dictionaries({"1": subset, "2": subset})


@st.composite
def rank_from(draw: st.DrawFn, rank: int, plan: list[tuple[str, int | str]]) -> RankTrace:
    plan = draw(st.permutations(plan))
    ids = draw(st.permutations(range(len(plan)))) if draw(st.booleans()) else range(len(plan))
    nodes = []
    for place, (what, other) in enumerate(plan):
        earlier = st.sampled_from(ids[:place]) if place else st.nothing()
        deps = draw(st.lists(earlier, unique=True, max_size=2)) if place else []
        nodes.append(make(what, other, ids[place], deps, duration=draw(st.integers(0, 9))))
    return rank_trace(rank, nodes)


def make(what: str, other: int | str, i: int, deps: list[int], duration: int) -> Node:
    if what == "comp":
        return node(i, deps=deps, duration=duration)
    if what == "coll":
        return coll(i, "all_reduce", pg=str(other), deps=deps)
    return (send if what == "send" else recv)(i, int(other), deps=deps)


def plays_to_the_end(workload: Workload, window: int) -> bool:
    """Play by the rules, everything as soon as it can, until nothing moves; True if all nodes are done then."""
    done: list[set[int]] = [set() for _ in workload.programs]
    posted: dict[tuple[int, bool], set[int]] = defaultdict(set)
    members: dict[int, set[int]] = defaultdict(set)
    for program in workload.programs:
        for item in program.communications.values():
            members[item.instance].add(program.rank)
    moved = True
    while moved:
        moved = False
        for rank, program in enumerate(workload.programs):
            for position in range(len(program)):
                held = position - sum(before < position for before in done[rank])
                if held >= window or position in done[rank]:
                    continue
                needed = program.dep_position[program.dep_offset[position] : program.dep_offset[position + 1]]
                if not set(needed.tolist()) <= done[rank]:
                    continue
                item = program.communications.get(position)
                if item is not None:
                    is_recv = item.kind == CommKind.RECV
                    if item.kind.is_collective:
                        earlier = [
                            other
                            for p, other in program.communications.items()
                            if p < position and other.kind.is_collective and other.group == item.group
                        ]
                        if not all(rank in posted[other.instance, False] for other in earlier):
                            continue
                    if rank not in posted[item.instance, is_recv]:
                        posted[item.instance, is_recv].add(rank)
                        moved = True
                    if item.kind.is_collective and posted[item.instance, False] != members[item.instance]:
                        continue
                    if is_recv and not posted[item.instance, False]:
                        continue
                done[rank].add(position)
                moved = True
    return all(len(done[rank]) == len(program) for rank, program in enumerate(workload.programs))


@given(any_workload(), st.integers(1, 4))
def test_proof_is_right(workload: Workload, window: int) -> None:
    finishes = plays_to_the_end(workload, window=1000)
    event(f"finishes: {finishes}")
    if not finishes:
        with pytest.raises(TraceError, match=r"wait for each other: rank \d+ node \d+"):
            prove(workload.programs, groups=workload.groups, instances=workload.instances, window=window)
        return
    enough = prove(workload.programs, groups=workload.groups, instances=workload.instances, window=window)
    event(f"doubled: {enough > window}")
    assert plays_to_the_end(workload, window=enough)


# --- paths ---


def naive_longest(workload: Workload, communication_ns: Sequence[int]) -> int:
    """Longest path by repeating every rule until no time changes."""
    starts: dict[tuple[int, int], int] = defaultdict(int)
    by_instance: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for rank, program in enumerate(workload.programs):
        for position, item in program.communications.items():
            by_instance[item.instance].append((rank, position))

    def end(rank: int, position: int) -> int:
        program = workload.programs[rank]
        item = program.communications.get(position)
        if item is None:
            return starts[rank, position] + int(program.duration_ns[position])
        return starts[rank, position] + (0 if item.kind == CommKind.RECV else communication_ns[item.instance])

    def raise_to(node: tuple[int, int], when: int) -> bool:
        if starts[node] >= when:
            return False
        starts[node] = when
        return True

    changed = True
    while changed:
        changed = False
        for rank, program in enumerate(workload.programs):
            last: dict[int, int] = {}
            for position in range(len(program)):
                for dep in program.dep_position[program.dep_offset[position] : program.dep_offset[position + 1]]:
                    changed |= raise_to((rank, position), end(rank, int(dep)))
                item = program.communications.get(position)
                if item is None:
                    continue
                if item.kind.is_collective:
                    if item.group in last:
                        changed |= raise_to((rank, position), end(rank, last[item.group]))
                    last[item.group] = position
                    for other in by_instance[item.instance]:
                        changed |= raise_to((rank, position), starts[other])
                elif item.kind == CommKind.RECV:
                    for other in by_instance[item.instance]:
                        if other != (rank, position):
                            changed |= raise_to((rank, position), end(*other))
    return max(
        (end(rank, position) for rank, program in enumerate(workload.programs) for position in range(len(program))),
        default=0,
    )


@given(any_workload(), st.data())
def test_longest_path(workload: Workload, data: st.DataObject) -> None:
    if not plays_to_the_end(workload, window=1000):
        return
    weights = data.draw(st.lists(st.integers(0, 9000), min_size=workload.instances, max_size=workload.instances))
    assert longest_path_ns(workload, communication_ns=weights) == naive_longest(workload, weights)


@given(any_workload())
def test_the_order_of_a_graph_is_topological(workload: Workload) -> None:
    if not plays_to_the_end(workload, window=1000):
        return
    graph = merged_graph(workload.programs, layout_of(workload.programs, workload.instances))
    order = graph.order()
    place = np.empty(graph.vertices, dtype=np.int64)
    place[order] = np.arange(graph.vertices)
    assert sorted(order.tolist()) == list(range(graph.vertices))
    assert all(place[v] < place[w] for v in range(graph.vertices) for w in graph.successors(v))
