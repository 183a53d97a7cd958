"""Whatever the layout, no plan is faster than the ideal; and agents take the time that the plan says."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.planner.network.header_overhead import roce_overhead
from emulator.planner.network.ideal_times import group_times_ns
from emulator.planner.network.plan import OperationPlan, make_plan
from emulator.planner.network.routing import Router
from emulator.planner.traffic.operation import traffic_of_collective
from emulator.topology.load import load_topology
from emulator.topology.model import Topology
from emulator.trace.meaning.model import CommKind
from tests.support import traces as write
from tests.support.full import examples
from tests.support.playing import play

CASES = [
    (CommKind.ALL_REDUCE, "ring"),
    (CommKind.ALL_REDUCE, "bidirectional_ring"),
    (CommKind.ALL_REDUCE, "halving_doubling"),
    (CommKind.ALL_REDUCE, "double_binary_tree"),
    (CommKind.ALL_GATHER, "ring"),
    (CommKind.ALL_TO_ALL, "parallel"),
    (CommKind.ALL_TO_ALL, "pairwise"),
    (CommKind.BROADCAST, "tree"),
]
OVERHEAD = roce_overhead(1500, message_bytes=4096, path_mtu=1024)

domains = st.none() | st.tuples(st.integers(1, 4_000), st.integers(0, 5_000))
hosts = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 400), domains), min_size=1, max_size=3)


def layout(described: list[tuple[int, int, tuple[int, int] | None]], placement: str, ranks: int) -> Topology:
    """Hosts of (interfaces, Gbit/s, (Gbit/s, latency) of a domain)."""
    lines = []
    for number, (ports, rate, domain) in enumerate(described):
        inside = f" domain: {{rate: {domain[0]}Gbit, latency: {domain[1]}ns}}," if domain else ""
        names = ", ".join(f"{{name: e{port}, address: 198.18.{number}.{port + 1}}}" for port in range(ports))
        lines.append(f"- {{name: h{number}, rate: {rate}Gbit,{inside} interfaces: [{names}]}}")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.yaml"
        path.write_text("hosts:\n" + "\n".join(lines) + f"\nplacement: {placement}\n")
        return load_topology(path, ranks=ranks)


def planned(topology: Topology, case: tuple[CommKind, str], size_bytes: int) -> OperationPlan:
    kind, algorithm = case
    traffic = traffic_of_collective(
        kind,
        ranks=topology.ranks,
        size_bytes=size_bytes * topology.ranks,
        group_size=topology.ranks,
        overrides={kind.label: algorithm},
    )
    plan = make_plan(traffic, topology, router=Router(topology), overhead=OVERHEAD)
    return plan.operations[0]


@settings(max_examples=examples(500))
@given(
    described=hosts,
    placement=st.sampled_from(["block", "round_robin", "rail"]),
    ranks=st.integers(2, 8),
    case=st.sampled_from(CASES),
    size_bytes=st.integers(1, 8_000),
)
def test_no_plan_is_faster_than_the_ideal(
    described: list[tuple[int, int, tuple[int, int] | None]],
    placement: str,
    ranks: int,
    case: tuple[CommKind, str],
    size_bytes: int,
) -> None:
    topology = layout(described, placement, ranks)
    plan = planned(topology, case, size_bytes)
    assert [plan.port_ns] == group_times_ns(plan.operation, topology, OVERHEAD)
    assert plan.ideal_ns >= plan.port_ns
    assert plan.fair_ns >= plan.ideal_ns
    assert plan.domain_bytes <= plan.local_bytes


@settings(max_examples=examples(500))
@given(
    rate=st.integers(1, 4_000),
    latency_ns=st.integers(0, 5_000),
    ranks=st.integers(2, 6),
    case=st.sampled_from(CASES),
    size_bytes=st.integers(1, 1_000_000),
)
def test_agents_take_the_time_that_is_planned(
    rate: int, latency_ns: int, ranks: int, case: tuple[CommKind, str], size_bytes: int
) -> None:
    kind, algorithm = case
    topology = layout([(1, 1, (rate, latency_ns))], "block", ranks)
    plan = planned(topology, case, size_bytes)
    traces = [write.rank_trace(rank, [write.coll(1, kind.label, plan.operation.size_bytes)]) for rank in range(ranks)]
    played = play(
        traces,
        algorithms=[f"{kind.label}={algorithm}"],
        domain=topology.hosts[0].domain,
        loss=1.0,  # of what crosses the network: nothing does
    )
    took_ns = max(played.done(rank, 1) for rank in range(ranks))
    # Agents wait for the first clear-to-send, and round every arrival up to a ns.
    assert 0 <= took_ns - plan.fair_ns <= latency_ns + 4 * ranks
    assert plan.network_bytes == 0
