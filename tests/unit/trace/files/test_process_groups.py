from __future__ import annotations

import json

import pytest

from emulator.errors import TraceError
from emulator.trace.files import process_groups
from emulator.trace.files.process_groups import (
    UnreadableGroups,
    merge_groups,
    parse_process_groups,
    parse_rank_list,
)

ENTRIES = [{"pg_name": "0", "ranks": []}, {"pg_name": 7, "ranks": [2, 0], "backend": "nccl"}, {"pg_name": "x"}]
GROUPS = {"0": (), "7": (2, 0), "x": ()}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ENTRIES),
        json.dumps([json.dumps(ENTRIES)]),
        json.dumps([json.dumps([json.dumps(ENTRIES)])]),
        repr(ENTRIES),
        repr([json.dumps(ENTRIES)]),
    ],
    ids=["JSON", "JSON in JSON", "twice in JSON", "Python", "JSON in Python"],
)
def test_groups_are_read_in_every_quoting(text: str) -> None:
    assert parse_process_groups(text) == GROUPS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "{}",
        "[3]",
        '["nonsense"]',
        '[{"ranks": [0]}]',
        '[{"pg_name": "0", "ranks": "01"}]',
        "[" * 100_000,
    ],
)
def test_text_that_describes_no_groups_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableGroups):
        parse_process_groups(text)


def test_a_long_text_is_not_parsed_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(ENTRIES)
    monkeypatch.setattr(process_groups, "MAX_TEXT_BYTES", len(text))
    assert parse_process_groups(text) == GROUPS
    with pytest.raises(UnreadableGroups, match="characters"):
        parse_process_groups(text + " ")


@pytest.mark.parametrize(("text", "ranks"), [("[0, 1]", (0, 1)), ("[]", ()), ("[ 3 ]", (3,))])
def test_a_list_of_ranks_is_read(text: str, ranks: tuple[int, ...]) -> None:
    assert parse_rank_list(text) == ranks


@pytest.mark.parametrize("text", ["[0, 1, ..., 7]", "[0, true]", "[0.5]", "(0, 1)", "7", '["0"]'])
def test_a_list_that_is_shortened_or_not_of_integers_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableGroups):
        parse_rank_list(text)


def test_a_second_description_adds_groups_and_may_repeat_one() -> None:
    known = {"a": (0, 1)}
    merge_groups(known, {"a": (0, 1), "b": (2,)}, path="t.0.et", node=5)
    assert known == {"a": (0, 1), "b": (2,)}


def test_a_second_description_with_other_ranks_is_an_error() -> None:
    with pytest.raises(TraceError) as error:
        merge_groups({"a": (0, 1)}, {"a": (1, 0)}, path="t.0.et", node=5)
    assert str(error.value) == "t.0.et, node 5: defines process group 'a' a second time with other ranks"
