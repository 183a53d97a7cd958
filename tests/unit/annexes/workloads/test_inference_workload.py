"""Who serves a request, what is sent, and between which ranks."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.annexes.workloads.inference import Inference, PrefixCache, Request, ServedModel
from emulator.annexes.workloads.inference_workload import BlockCache, Share, inference_workload, serve, shares
from emulator.annexes.workloads.totals import SyntheticWorkload
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.synthetic import WorkNode
from tests.support.full import examples
from tests.support.virtual_world import stuck_nodes

JOB = Inference(rate=1.0)
HEAD = 80 * 2 * 128 * 2


@pytest.mark.parametrize(
    ("prefill", "decode", "expected"),
    [
        (1, 1, {(0, 0): 8}),
        (2, 4, {(0, 0): 2, (0, 1): 2, (1, 2): 2, (1, 3): 2}),
        (4, 2, {(0, 0): 2, (1, 0): 2, (2, 1): 2, (3, 1): 2}),
        (8, 8, {(rank, rank): 1 for rank in range(8)}),
        # 16 ranks hold a head twice: each receiver takes it from a holder of its own.
        (16, 8, {(0, 0): 1, (3, 1): 1, (4, 2): 1, (7, 3): 1, (8, 4): 1, (11, 5): 1, (12, 6): 1, (15, 7): 1}),
        (1, 16, {(0, rank): 1 for rank in range(16)}),
    ],
)
def test_heads_go_from_a_rank_that_holds_them_to_one_that_needs_them(
    prefill: int, decode: int, expected: dict[tuple[int, int], int]
) -> None:
    found = shares(replace(JOB, prefill_tensor=prefill, decode_tensor=decode))
    assert found == [Share(*ends, heads * HEAD) for ends, heads in sorted(expected.items())]
    copies = max(1, decode // 8)
    assert sum(share.token_bytes for share in found) == copies * 327_680


def test_every_decode_rank_gets_the_whole_latent_cache() -> None:
    found = shares(replace(JOB, model=ServedModel.DEEPSEEK_R1, prefill_tensor=2, decode_tensor=4))
    assert found == [Share(rank % 2, rank, 70_272) for rank in (0, 2, 1, 3)]


def test_requests_go_to_the_workers_with_the_fewest_tokens() -> None:
    lengths = [(1000, 10), (10, 10), (10, 2000), (500, 10), (10, 10)]
    served = serve(replace(JOB, prefill=2, decode=2), [Request(0, *pair) for pair in lengths])
    assert [one.prefill for one in served] == [0, 1, 1, 1, 1]
    assert [one.decode for one in served] == [0, 1, 1, 0, 0]


def _sent(job: Inference, prompts: list[list[int]]) -> list[int]:
    return [one.sent_tokens for one in serve(job, [Request(0, 512 * len(p) - 12, 1, p) for p in prompts])]


PROMPTS = [[1, 2, 3], [1, 2, 3], [1, 2, 9, 3], [8, 2, 3]]
"""Their last blocks have 500 tokens."""


def test_blocks_that_the_decode_worker_has_are_not_sent() -> None:
    assert _sent(JOB, PROMPTS) == [1524, 0, 1012, 1524]
    assert _sent(replace(JOB, prefix_cache=PrefixCache.OFF), PROMPTS) == [1524, 1524, 2036, 1524]


def test_a_pool_remembers_what_any_of_its_workers_received() -> None:
    two = replace(JOB, decode=2)
    assert _sent(two, PROMPTS) == [1524, 1524, 1012, 1524]  # 0, 1, 0 or 1: each learns for itself
    assert _sent(replace(two, prefix_cache=PrefixCache.POOL), PROMPTS) == [1524, 0, 1012, 1524]


def test_a_small_cache_forgets() -> None:
    assert _sent(replace(JOB, cache_blocks=2), [[1, 2], [3, 4], [1, 2]]) == [1012, 1012, 1012]


def test_a_cached_prompt_still_computes_its_last_token() -> None:
    first, second = serve(JOB, [Request(0, 1024, 1, [1, 2])] * 2)
    assert first.prefill_micros == JOB.prefill_micros(tokens=1024, cached=0)
    assert second.prefill_micros == JOB.prefill_micros(tokens=1, cached=1023)


def test_load_spreads_requests_over_all_pairs_of_workers() -> None:
    job = replace(JOB, prefill=2, decode=2)
    pairs = Counter(
        (one.prefill, one.decode) for one in serve(job, [Request(0, 1 + n * 37 % 101, n * 53 % 71) for n in range(200)])
    )
    assert len(pairs) == 4


def test_only_the_leading_blocks_count() -> None:
    cache = BlockCache()
    assert cache.look_up([1, 2, 3]) == 0
    assert cache.look_up([1, 2, 9, 3]) == 2
    assert cache.look_up([7, 1, 2]) == 0
    assert cache.look_up([1, 2, 9, 3]) == 4


def test_past_its_capacity_the_least_recently_used_go_and_the_first_blocks_stay() -> None:
    cache = BlockCache(3)
    cache.look_up([1, 2, 3])
    assert cache.look_up([1, 5]) == 1
    assert cache.look_up([1, 2]) == 2  # 3, the last of the older prompt, went
    assert cache.look_up([1, 2, 3]) == 2


@given(st.lists(st.lists(st.integers(0, 9), unique=True), max_size=20))
def test_without_a_limit_a_block_seen_once_is_remembered(prompts: list[list[int]]) -> None:
    cache, seen = BlockCache(), set[int]()
    for prompt in prompts:
        expected = next((n for n, block in enumerate(prompt) if block not in seen), len(prompt))
        assert cache.look_up(prompt) == expected
        seen.update(prompt)


WORKLOAD_JOB = Inference(rate=1.0, prefill_tensor=2, decode_tensor=4)
REQUESTS = [Request(0, 600, 5, (1, 2)), Request(7, 600, 5, (1, 3)), Request(7, 600, 5, (1, 3)), Request(30, 9, 5)]


def _by_name(workload: SyntheticWorkload, rank: int) -> dict[str, WorkNode]:
    return {node.name: node for node in workload.nodes(rank)}


def _deps(nodes: dict[str, WorkNode], name: str) -> set[str]:
    return {one.name for one in nodes.values() if one.node_id in nodes[name].deps}


def test_arrivals_wait_for_nothing_but_the_arrival_before() -> None:
    for rank in (0, 2):
        nodes = _by_name(inference_workload(WORKLOAD_JOB, REQUESTS), rank)
        arrivals = {name: node for name, node in nodes.items() if name.endswith("arrival")}
        assert [node.duration_micros for node in arrivals.values()] == [7, 23]
        assert all(node.on_cpu for node in arrivals.values())
        assert _deps(nodes, "request.1.arrival") == set()
        assert _deps(nodes, "request.3.arrival") == {"request.1.arrival"}


def test_a_prefill_waits_for_its_request_and_the_device_and_sends_when_it_is_done() -> None:
    nodes = _by_name(inference_workload(WORKLOAD_JOB, REQUESTS), 1)
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
    nodes = _by_name(inference_workload(WORKLOAD_JOB, REQUESTS), 4)
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
