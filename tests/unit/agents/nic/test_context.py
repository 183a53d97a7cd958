"""What the queue pairs of a transport share."""

from typing import Any, cast

import numpy as np

from agents.nic.context import Context, make_context
from emulator.roce.options import RoceOptions
from tests.support.virtual_clock import VirtualClock


def context(*, payload_seed: int | None = None) -> Context:
    senders = cast(Any, None)  # opened on first use
    return make_context(options=RoceOptions(), clock=VirtualClock(), senders=senders, payload_seed=payload_seed)


def test_batches_are_made_once_per_address_family() -> None:
    shared = context()
    assert shared.send_batch(is_v6=False) is shared.send_batch(is_v6=False)
    assert shared.send_batch(is_v6=False) is not shared.send_batch(is_v6=True)
    assert shared.receive_batch(is_v6=True) is shared.receive_batch(is_v6=True)
    assert shared.receive_batch(is_v6=False) is not shared.receive_batch(is_v6=True)


def test_sending_and_receiving_use_the_same_packet_length() -> None:
    shared = context()
    assert shared.receive_batch(is_v6=False).stride == shared.staging.packet_bytes == shared.payload.packet_bytes


def test_payload_is_constant_unless_it_has_a_seed() -> None:
    assert context().payload.is_constant
    seeded = context(payload_seed=3).payload
    assert not seeded.is_constant
    assert np.array_equal(seeded.rows, context(payload_seed=3).payload.rows)
    assert not np.array_equal(seeded.rows, context(payload_seed=4).payload.rows)


def test_the_kernel_cuts_calls_until_it_refuses() -> None:
    assert context().is_cutting


def test_queue_pairs_of_another_path_mtu_share_the_sockets_and_the_buffer() -> None:
    shared = context()
    assert shared.with_path_mtu(shared.options.path_mtu) is shared
    other = shared.with_path_mtu(1024)
    assert other.payload.path_mtu == other.options.path_mtu == 1024
    assert (other.buffer, other.drops, other.senders) == (shared.buffer, shared.drops, shared.senders)
    assert other.send_batch(is_v6=False) is not shared.send_batch(is_v6=False)
    assert other.receive_batch(is_v6=False).stride == other.payload.packet_bytes
