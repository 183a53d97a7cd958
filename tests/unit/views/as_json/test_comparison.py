"""A comparison as a JSON document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from emulator.results.comparison.groups import RunGroup
from emulator.results.comparison.verdicts import GroupComparison
from emulator.views.as_json.comparison import comparison_to_json
from tests.support.recorded import compared, recorded, slower_firmware


def document(comparison: GroupComparison) -> dict[str, Any]:
    found = json.loads(json.dumps(comparison_to_json(comparison), allow_nan=False))
    assert isinstance(found, dict)
    return found


def test_groups_list_their_runs_and_those_left_out_with_the_reason() -> None:
    first, second = document(slower_firmware())["groups"]
    assert (first["name"], first["attempted"], first["left_out"]) == ("fw-a", 6, [])
    assert first["runs"][0] == {"folder": "paced-0", "run_id": "paced-0"}
    assert (second["attempted"], second["left_out"]) == (7, [{"folder": "paced-20", "why": "aborted: lost"}])


def test_a_slower_class_has_times_in_ns_an_effect_and_fails_both_gates() -> None:
    found = document(slower_firmware())
    assert (found["passes_gate"], found["passes_strict_gate"], found["forced"]) == (False, False, False)
    (pair,) = found["pairs"]
    assert (pair["baseline"], pair["other"]) == ("fw-a", "fw-b")
    assert pair["verdicts"] == {"slower": 5} | {name: 0 for name in pair["verdicts"] if name != "slower"}
    for one in pair["classes"]:
        assert one["ratio_low"] < one["ratio"] < one["ratio_high"]
        assert one["ratio"] == pytest.approx(1.2, abs=0.05)
        assert one["baseline"]["runs"] == len(one["baseline"]["values_ns"]) == 6
        assert one["other"]["median_ns"] > one["baseline"]["median_ns"] > 1000
        assert (one["verdict"], one["why"]) == ("slower", None)


def test_too_few_runs_have_how_many_are_needed_and_pass_only_the_lenient_gate() -> None:
    runs = recorded("paced")
    found = document(compared(RunGroup("a", runs[0:4:2]), RunGroup("b", runs[1:4:2])))
    assert (found["passes_gate"], found["passes_strict_gate"]) == (True, False)
    classes = found["pairs"][0]["classes"]
    assert {one["verdict"] for one in classes} == {"inconclusive"}
    assert all(one["needs_runs"] is None or one["needs_runs"] > 2 for one in classes)


def test_what_is_unknown_is_null() -> None:
    runs = recorded("paced")
    found = document(compared(RunGroup("a", runs[0:1]), RunGroup("b", runs[1:2])))
    one = found["pairs"][0]["classes"][0]
    assert one["ratio_low"] is None
    assert found["groups"][0]["firmware"] is None
