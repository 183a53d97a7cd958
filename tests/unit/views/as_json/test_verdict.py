"""The verdict as a JSON document."""

from __future__ import annotations

from pathlib import Path

from emulator.views.as_json.verdict import verdict_to_json
from tests.unit.views.terminal.test_verdict_table import rule, verdict


def test_json_has_every_check_with_unit_bound_and_class(tmp_path: Path) -> None:
    document = verdict_to_json(verdict(tmp_path, rule("cct_p50", 10)))
    assert document["outcome"] == "FAIL"
    assert document["checks"] == [
        {
            "outcome": "FAIL",
            "metric": "cct_p50",
            "unit": "ns",
            "device": None,
            "iteration": None,
            "flow": None,
            "class": {"collective": "all_reduce", "members": 2, "size_bytes": 1000, "algorithm": "ring", "where": ""},
            "value": 100.0,
            "perfect": None,
            "bound": "at most",
            "limit": 10,
            "reason": "",
            "broken": 0,
            "of": 0,
        }
    ]


def test_without_rules_the_document_has_neither_outcome_nor_checks(tmp_path: Path) -> None:
    document = verdict_to_json(verdict(tmp_path))
    assert (document["outcome"], document["rules"], document["checks"]) == (None, None, [])
    assert document["text"].startswith("Played ")


def test_a_rule_for_the_run_has_neither_class_nor_device(tmp_path: Path) -> None:
    [check] = verdict_to_json(verdict(tmp_path, rule("jct", 900)))["checks"]
    assert (check["outcome"], check["class"], check["device"], check["value"]) == ("PASS", None, None, 500)
    assert (check["bound"], check["limit"]) == ("at most", 900)
