"""Values of every operation survive the way through messages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.schema import decode
from emulator.service import model
from emulator.service.rpc import described

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TIMES = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
RUNS = st.builds(
    model.Run,
    id=st.integers(0, 1 << 53),
    dut=WORDS,
    user=WORDS,
    name=WORDS,
    state=st.sampled_from(model.State),
    series=WORDS,
    profile=st.none() | WORDS,
    submitted=TIMES,
    started=st.none() | TIMES,
    ended=st.none() | TIMES,
    reason=st.none() | WORDS,
    verdict=st.none() | WORDS,
)


@given(run=RUNS)
def test_a_run_comes_back_as_it_was(run: model.Run) -> None:
    found = described().decode(model.Run, described().encode(model.Run, run))
    defaults = {"id": "0", "dut": "", "user": "", "name": "", "series": ""}  # what proto3 does not send
    assert decode(defaults | found, model.Run, is_text=True) == run


@given(content=st.binary(max_size=60))
def test_any_bytes_are_a_message_or_refused(content: bytes) -> None:
    try:
        found = described().decode(model.Dut, content)
    except ValueError:
        return
    assert set(found) <= {"name", "about", "topologies", "spec"}


def test_lists_and_objects() -> None:
    users = [model.User(name="ann", role=model.Role.ADMIN)]
    assert described().decode(list[model.User], described().encode(list[model.User], users)) == [
        {"name": "ann", "role": "admin"}
    ]
    dut = model.Dut(name="a", topologies=("x", "y"), spec={"job": {"iterations": 2, "compute": None}})
    assert decode(described().decode(model.Dut, described().encode(model.Dut, dut)), model.Dut) == dut


@pytest.mark.parametrize("text", ["optional string profile = 7;", "rpc FollowRun(", "repeated int64 baseline = 1;"])
def test_numbers_of_fields_stay(text: str) -> None:
    assert text in described().proto()
