"""The nodes of prefill and decode ranks."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.inference import Inference, PrefixCache
from emulator.trace.synthetic.inference_requests import Request
from emulator.trace.synthetic.inference_workload import inference_workload
from emulator.trace.synthetic.synthetic import SyntheticWorkload, WorkNode
from tests.support.full import examples
from tests.support.virtual_world import stuck_nodes

JOB = Inference(rate=1.0, prefill_tensor=2, decode_tensor=4)
REQUESTS = [Request(0, 600, 5, (1, 2)), Request(7, 600, 5, (1, 3)), Request(7, 600, 5, (1, 3)), Request(30, 9, 5)]


def _by_name(workload: SyntheticWorkload, rank: int) -> dict[str, WorkNode]:
    return {node.name: node for node in workload.nodes(rank)}


def _deps(nodes: dict[str, WorkNode], name: str) -> set[str]:
    return {one.name for one in nodes.values() if one.node_id in nodes[name].deps}


def test_arrivals_wait_for_nothing_but_the_arrival_before() -> None:
    for rank in (0, 2):
        nodes = _by_name(inference_workload(JOB, REQUESTS), rank)
        arrivals = {name: node for name, node in nodes.items() if name.endswith("arrival")}
        assert [node.duration_micros for node in arrivals.values()] == [7, 23]
        assert all(node.on_cpu for node in arrivals.values())
        assert _deps(nodes, "request.1.arrival") == set()
        assert _deps(nodes, "request.3.arrival") == {"request.1.arrival"}


def test_a_prefill_waits_for_its_request_and_the_device_and_sends_when_it_is_done() -> None:
    nodes = _by_name(inference_workload(JOB, REQUESTS), 1)
    assert _deps(nodes, "request.0.prefill") == set()
    assert _deps(nodes, "request.1.prefill") == {"request.1.arrival", "request.0.prefill"}
    assert _deps(nodes, "request.1.kv.to.4") == {"request.1.prefill"}
    sends = [node for node in nodes.values() if node.kind is CommKind.SEND]
    assert [(node.tag, node.peer, node.size_bytes) for node in sends] == [
        (0, 4, 600 * 81_920),
        (0, 5, 600 * 81_920),
        (1, 4, 88 * 81_920),  # the first block of 512 tokens is there
        (1, 5, 88 * 81_920),
        (3, 4, 9 * 81_920),  # of request 2 everything is there
        (3, 5, 9 * 81_920),
    ]


def test_receives_are_posted_when_their_request_arrives() -> None:
    nodes = _by_name(inference_workload(JOB, REQUESTS), 4)
    receives = {name: node for name, node in nodes.items() if node.kind is CommKind.RECV}
    assert [(node.tag, node.peer) for node in receives.values()] == [(0, 1), (1, 1), (3, 1)]
    assert [_deps(nodes, name) for name in receives] == [set(), {"request.1.arrival"}, {"request.3.arrival"}]


requests = st.lists(
    st.builds(
        Request,
        st.integers(0, 50),
        st.integers(1, 40),
        st.integers(0, 40),
        st.lists(st.integers(0, 6), min_size=10, max_size=10, unique=False),
    ),
    max_size=12,
)


@st.composite
def workloads(draw: st.DrawFn) -> SyntheticWorkload:
    small = st.integers(1, 3)
    job = Inference(
        rate=1.0,
        prefill=draw(small),
        prefill_tensor=draw(st.sampled_from([1, 2, 8, 16])),
        decode=draw(small),
        decode_tensor=draw(st.sampled_from([1, 4, 16])),
        prefix_cache=draw(st.sampled_from(PrefixCache)),
        cache_blocks=draw(st.none() | st.integers(1, 9)),
        block_tokens=4,
    )
    made = sorted(draw(requests), key=lambda one: one.at_micros)
    whole = [replace(one, blocks=one.blocks[: -(-one.input_length // 4)]) for one in made]
    return inference_workload(job, whole)


@given(workloads())
@settings(max_examples=examples(40), deadline=None)
def test_what_is_sent_is_received_and_every_rank_ends(workload: SyntheticWorkload) -> None:
    totals = {entry.kind: entry.total_bytes for entry in workload.totals.traffic}
    assert totals.get(CommKind.SEND) == totals.get(CommKind.RECV)
    assert stuck_nodes(workload) == []
