"""Whatever a proven workload looks like, its ranks play it to the end, and every node keeps its promises.

Random worlds: dependencies that form no cycle, groups, collectives that all members have, pairs of sends and receives;
those that build_workload refuses (they could deadlock) are left out.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from emulator.controller.program_stream import ProgramStream
from emulator.errors import TraceError
from emulator.planner.algorithms import algorithm_names
from emulator.trace.meaning.model import CommKind, RankTrace, Resource
from emulator.trace.meaning.workload import build_workload, prove
from tests.support.full import examples
from tests.support.playing import Played, check_bytes, check_order, play
from tests.support.traces import METADATA, Node, coll, node, rank_trace, recv, send

COLLECTIVES = [kind for kind in CommKind if kind.is_collective]
SIZES = st.sampled_from([0, 1, 7, 100, 5000])


@dataclass(frozen=True)
class World:
    traces: list[RankTrace]
    groups: dict[str, tuple[int, ...]]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Up to 5 ranks and 3 groups; nodes of a rank depend on nodes that were made before them."""
    ranks = draw(st.integers(1, 5))
    everybody = range(ranks)
    members = st.lists(st.sampled_from(everybody), min_size=1, unique=True).map(lambda found: tuple(sorted(found)))
    groups = {f"g{k}": draw(members) for k in range(draw(st.integers(0, 3)))}
    nodes: list[list[Node]] = [[] for _ in everybody]

    def deps(rank: int) -> list[int]:
        made = [item.id for item in nodes[rank]]
        return draw(st.lists(st.sampled_from(made), max_size=3, unique=True)) if made else []

    used: set[str] = set()
    for number in range(1, draw(st.integers(2, 20)) + 1):
        what = draw(st.sampled_from(["compute", "cpu", "metadata", "collective", "collective", "pair"]))
        if what == "collective":
            name = draw(st.sampled_from(["", *groups]))
            kind, size = draw(st.sampled_from(COLLECTIVES)), draw(SIZES)
            used.add(name)
            for rank in groups.get(name, everybody):
                nodes[rank].append(coll(number, kind.label, size, name or None, deps=deps(rank)))
        elif what == "pair" and ranks > 1:
            source, target = draw(st.permutations(everybody))[:2]
            size, tag = draw(SIZES), draw(st.integers(0, 1))
            nodes[source].append(send(number, target, size, tag, deps=deps(source)))
            nodes[target].append(recv(number, source, size, tag, deps=deps(target)))
        else:
            rank = draw(st.sampled_from(everybody))
            duration = draw(st.sampled_from([0, 1, 3, 20]))
            if what == "metadata":
                nodes[rank].append(node(number, METADATA, deps=deps(rank)))
            else:
                nodes[rank].append(node(number, duration=duration, deps=deps(rank), cpu=what == "cpu"))
    traces = [rank_trace(rank, listed) for rank, listed in enumerate(nodes)]
    return World(traces, {name: found for name, found in groups.items() if name in used})


@st.composite
def algorithm_options(draw: st.DrawFn) -> list[str]:
    kinds = [kind for kind in COLLECTIVES if kind is not CommKind.REDUCE_SCATTER_BLOCK]
    return [f"{kind.label}={draw(st.sampled_from(sorted(algorithm_names(kind))))}" for kind in kinds]


networks = st.fixed_dictionaries(
    {
        "latency_ns": st.sampled_from([1, 1_000, 20_000]),
        "bytes_per_s": st.sampled_from([None, 10**8]),
        "message_bytes": st.sampled_from([64, 1 << 20]),
        "seed": st.integers(0, 2**16),
    },
    optional={"loss": st.floats(0, 0.2), "duplication": st.floats(0, 0.2), "reordering": st.floats(0, 0.2)},
)


def check_compute(played: Played) -> None:
    """Device time is exact, and no rank is done before what it must do one after the other."""
    for program in played.workload.programs:
        durations = {
            resource: int(program.duration_ns[program.resource == resource].sum())
            for resource in (Resource.CPU, Resource.DEVICE)
        }
        for (iteration, rank), summary in played.summaries.items():
            if rank == program.rank:
                assert summary.compute_ns == durations[Resource.DEVICE]
                stamps = [stamp for span in played.spans.get((iteration, rank), []) for stamp in span]
                assert stamps == sorted(set(stamps))
                assert sum(stamps[1::2]) - sum(stamps[::2]) == summary.compute_ns
                assert summary.end_ns - summary.start_ns >= max(durations.values())
                assert summary.overlap_ns <= min(summary.compute_ns, summary.communication_ns)


def check_dependencies(played: Played) -> None:
    """No communication was posted before those it depends on, by whatever way, were done."""
    for program in played.workload.programs:
        latest = np.zeros(len(program), np.int64)
        mine = {c.node_id: c for c in played.completions if c.rank == program.rank and c.iteration == 0}
        start = played.summaries[0, program.rank].start_ns
        for position in range(len(program)):
            needed = program.dep_position[program.dep_offset[position] : program.dep_offset[position + 1]]
            ready = max([start, *latest[needed].tolist()])
            latest[position] = ready + program.duration_ns[position]
            if position in program.communications:
                completion = mine[program.communications[position].node_id]
                assert completion.post_ns >= ready
                latest[position] = completion.done_ns
        assert played.summaries[0, program.rank].end_ns >= max(latest.tolist(), default=start)


def check(played: Played) -> None:
    check_order(played)
    check_bytes(played)
    check_compute(played)
    check_dependencies(played)
    assert played.failures == []


def proven(world: World, window: int) -> tuple[Any, int]:
    try:
        workload = build_workload(world.traces, groups=world.groups)
    except TraceError:
        assume(False)
    suffices = prove(workload.programs, groups=workload.groups, instances=workload.instances, window=window)
    return workload, suffices


@settings(deadline=None, max_examples=examples(120))
@given(worlds(), algorithm_options(), networks, st.booleans(), st.integers(1, 8), st.integers(1, 4))
def test_every_proven_world_finishes(
    world: World, algorithms: list[str], network: dict[str, Any], with_credits: bool, least: int, share: int
) -> None:
    workload, window = proven(world, least)
    played = play(
        world.traces,
        workload=workload,
        algorithms=algorithms,
        with_credits=with_credits,
        iterations=(-1, 0),
        window=window,
        retire_batch=max(1, window // share),
        **network,
    )
    check(played)
    if with_credits:
        assert not any(one.early for one in played.completions)


@settings(deadline=None, max_examples=examples(60))
@given(worlds(), networks, st.booleans(), st.integers(0, 300_000))
def test_iterations_that_follow_each_other_without_a_barrier_finish(
    world: World, network: dict[str, Any], with_credits: bool, late_ns: int
) -> None:
    workload, _ = proven(world, 1)
    played = play(
        world.traces,
        workload=workload,
        with_credits=with_credits,
        iterations=(-1, 0, 1),
        lateness_ns=(0, late_ns),
        is_continuous=True,
        **network,
    )
    check(played)
    assert len(played.summaries) == 3 * len(world.traces)
    for rank in range(len(world.traces)):
        mine = [played.summaries[iteration, rank] for iteration in (-1, 0, 1)]
        assert all(after.start_ns >= before.end_ns for before, after in pairwise(mine))


@settings(deadline=None, max_examples=examples(60))
@given(worlds(), st.integers(0, 300_000), st.integers(0, 300_000), st.integers(0, 2**16))
def test_late_alarms_and_late_chunks_break_nothing(world: World, least: int, more: int, seed: int) -> None:
    workload, window = proven(world, 2)
    played = play(
        world.traces,
        workload=workload,
        window=window,
        retire_batch=max(1, window // 4),
        feed_ns=more,
        lateness_ns=(least, least + more),
        head_start_ns={rank: seed * rank for rank in range(len(world.traces))},
        seed=seed,
    )
    check(played)


@settings(deadline=None, max_examples=examples(60))
@given(worlds(), st.integers(1, 6), st.lists(st.integers(1, 5), max_size=40))
def test_chunks_put_together_are_the_program(world: World, window: int, grants: list[int]) -> None:
    workload, _ = proven(world, 1)
    program = workload.programs[0]
    ids = world.traces[0].node_id[program.order]
    stream = ProgramStream(program, ids, window=window, algorithm_of=lambda _: 0)
    for _ in range(2):
        stream.rewind()
        room, chunks = window, []
        for grant in [*grants, len(program)]:
            sent = list(stream.chunks())
            room -= sum(map(len, sent))
            assert room >= 0
            chunks += sent
            stream.grant(grant)
            room += grant
        chunks += stream.chunks()
        assert [chunk.first_position for chunk in chunks] == np.cumsum([0, *map(len, chunks)])[:-1].tolist()
        for name, whole in (("node_id", ids), ("resource", program.resource), ("duration_ns", program.duration_ns)):
            assert [value for chunk in chunks for value in getattr(chunk, name).tolist()] == whole.tolist()
        position = 0
        depended: list[int] = []
        for chunk in chunks:
            distances = iter(chunk.distance.tolist())
            for count in chunk.dependencies.tolist():
                depended += [position - next(distances) for _ in range(count)]
                position += 1
        assert depended == program.dep_position.tolist()
        instances = {p: item.instance for chunk in chunks for p, item in chunk.communications.items()}
        assert instances == {p: item.instance for p, item in program.communications.items()}
