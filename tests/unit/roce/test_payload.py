import pytest

from emulator.roce.wire.payload import Payload


@pytest.mark.parametrize(
    ("call_bytes", "packets"), [(0, 62), (1 << 16, 62), (26_000, 25), (25_999, 24), (1040, 1), (1, 1)]
)
def test_a_call_carries_at_most_what_was_asked_but_a_packet(call_bytes: int, packets: int) -> None:
    assert Payload(path_mtu=1024, call_bytes=call_bytes).per_call == packets


def test_random_payload_begins_again_after_the_last_slot_and_constant_payload_needs_one() -> None:
    random, constant = Payload(path_mtu=256, seed=1), Payload(path_mtu=256)
    assert [random.slot(packet) for packet in (0, 5, random.slots, random.slots + 2)] == [0, 5, 0, 2]
    assert {constant.slot(packet) for packet in (0, 5, constant.slots + 2)} == {0}
    assert random.take(0, 256) != random.take(1, 256)


def test_whoever_knows_the_seed_knows_the_payload() -> None:
    assert Payload(path_mtu=256, seed=1).block == Payload(path_mtu=256, seed=1).block
    assert Payload(path_mtu=256, seed=1).block != Payload(path_mtu=256, seed=2).block


def test_bytes_that_some_slot_begins_with_are_known() -> None:
    payload = Payload(path_mtu=256, seed=1)
    assert payload.has(bytes(payload.take(7, 200)))
    assert not payload.has(bytes(payload.take(7, 200))[1:])
