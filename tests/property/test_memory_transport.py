"""Whatever the network in memory does to messages, every transfer arrives once, in order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integration.transport_conformance import Heard, Listener, directory
from tests.support.full import examples
from tests.support.memory_transport.transport import MemoryNetwork
from tests.support.virtual_clock import VirtualClock

RANKS = 3
MESSAGE_BYTES = 64

probability = st.floats(min_value=0.0, max_value=0.3)
sizes = st.one_of(st.just(0), st.integers(1, 3 * MESSAGE_BYTES), st.integers(1, 40 * MESSAGE_BYTES))
posts = st.tuples(st.integers(0, RANKS - 1), st.integers(0, RANKS - 1), sizes, st.integers(0, 20_000))


@settings(deadline=None, max_examples=examples(150))
@given(
    transfers=st.lists(posts, max_size=40),
    seed=st.integers(0, 2**32),
    loss=probability,
    duplication=probability,
    reordering=probability,
    bytes_per_s=st.sampled_from([None, 10**6, 10**9]),
    window_messages=st.integers(1, 9),
)
def test_every_transfer_arrives_once_and_in_order(
    transfers: list[tuple[int, int, int, int]],
    seed: int,
    loss: float,
    duplication: float,
    reordering: float,
    bytes_per_s: int | None,
    window_messages: int,
) -> None:
    clock = VirtualClock()
    network = MemoryNetwork(
        clock,
        seed=seed,
        bytes_per_s=bytes_per_s,
        loss=loss,
        duplication=duplication,
        reordering=reordering,
        message_bytes=MESSAGE_BYTES,
        window_messages=window_messages,
    )
    log: list[Heard] = []
    ranks = [Listener(network.attach(rank), log) for rank in range(RANKS)]
    for listener in ranks:
        listener.connect(directory(ranks))
    posted = sorted(transfers, key=lambda transfer: transfer[3])
    for tag, (src, dst, size, when) in enumerate(posted):
        clock.call_at(when, lambda s=src, d=dst, t=tag, z=size: ranks[s].send(d, [(t, z)]))
    clock.run()

    for src in range(RANKS):
        for dst in range(RANKS):
            for is_control in (False, True):
                expected = [
                    (tag, size)
                    for tag, (s, d, size, _) in enumerate(posted)
                    if (s, d) == (src, dst) and (size == 0) == is_control
                ]
                assert [t for t in ranks[dst].arrivals(src) if (t[1] == 0) == is_control] == expected
                control_tags = {tag for tag, (_, _, size, _) in enumerate(posted) if size == 0}
                acknowledged = ranks[src].acknowledgements(dst)
                assert [t for t in acknowledged if (t in control_tags) == is_control] == [t for t, _ in expected]
    assert not any(listener.reasons or listener.heard_while_posting for listener in ranks)
