"""Built-in algorithms by name, and the parameter that names can have."""

import pytest

from emulator.errors import PlanError
from emulator.planner.built_in import MOST_CHANNELS, built_in, channels_of
from emulator.planner.schedule import Collective
from emulator.trace.meaning.model import CommKind


@pytest.mark.parametrize("channels", [1, 3, MOST_CHANNELS])
def test_a_ring_has_a_lane_for_each_channel(channels: int) -> None:
    for kind in (CommKind.ALL_REDUCE, CommKind.ALL_GATHER, CommKind.REDUCE_SCATTER):
        found = built_in(kind, f"ring:channels={channels}")
        assert found is not None
        assert len(found(Collective(kind, members=4, member=1, size_bytes=1 << 20))) == channels


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (CommKind.ALL_REDUCE, "ring:channels=0"),
        (CommKind.ALL_REDUCE, f"ring:channels={MOST_CHANNELS + 1}"),
        (CommKind.ALL_REDUCE, "ring:channels=two"),
        (CommKind.ALL_REDUCE, "ring:"),
        (CommKind.ALL_REDUCE, "ring:4"),
        (CommKind.ALL_REDUCE, "direct:channels=4"),
        (CommKind.BROADCAST, "ring:channels=4"),
    ],
)
def test_other_parameters_are_refused_with_what_there_is(kind: CommKind, name: str) -> None:
    with pytest.raises(PlanError, match=rf"{kind.label}={name}: .* takes channels=1 … 64: ring:channels=4"):
        built_in(kind, name)


def test_names_of_others_are_none() -> None:
    assert built_in(CommKind.ALL_REDUCE, "msccl:mine-01234567") is None
    assert built_in(CommKind.ALL_REDUCE, "zigzag") is None
    assert channels_of("msccl:channels") is None
