"""Results as JSON documents."""

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.results.comparison.groups import RunGroup
from emulator.results.comparison.verdicts import GroupComparison
from emulator.results.run_folder.manifest import Manifest, Scaling
from emulator.results.run_folder.store import UNREADABLE, StoredRun
from emulator.results.statistics.method.distribution import distributions
from emulator.results.statistics.samples.iterations import measurements
from emulator.results.statistics.summary import summarise
from emulator.views.as_json import (
    comparison_to_json,
    runs_to_json,
    statistics_to_json,
    summary_to_json,
    verdict_to_json,
)
from emulator.views.columns.figures import NONE
from tests.support.recorded import compared, recorded, slower_firmware
from tests.support.runs import collective, manifest, ranks, write_run
from tests.unit.views.terminal.test_verdict_table import rule, verdict


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
            "uncertainty": None,
            "uncertainty_why": "one iteration",
            "needs": None,
            "perfect": None,
            "network": None,
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


def document_of_summary(folder: Path, **facts: Any) -> dict[str, Any]:
    run = write_run(folder / "run", collective([0, 0], [100, 100]), **facts)
    found = json.loads(json.dumps(summary_to_json(summarise(run)), allow_nan=False))
    assert isinstance(found, dict)
    return found


def test_the_scaling_of_sizes_is_named_as_a_factor(tmp_path: Path) -> None:
    found = document_of_summary(tmp_path, scaling=Scaling(bytes=0.5, compute="skip"))["scaling"]
    assert (found["bytes_factor"], found["compute"]) == (0.5, "skip")
    assert "bytes" not in found


def test_exposed_communication_is_what_compute_does_not_hide(tmp_path: Path) -> None:
    spent = ranks((0, 500), (0, 400), compute=300, communication=200, overlap=50)
    found = document_of_summary(tmp_path, iterations={0: spent})["iteration"]
    assert (found["exposed_ns"], found["overlap_fraction"]) == (150, 0.25)


def test_a_run_without_iterations_has_null(tmp_path: Path) -> None:
    assert document_of_summary(tmp_path)["iteration"] is None


def test_each_class_says_whether_the_tester_limited_it(tmp_path: Path) -> None:
    [one] = document_of_summary(tmp_path)["classes"]
    assert one["tester_limited"] in (None, False)


ROOT = Path("runs")


def stored(name: str, found: Manifest | None = None, status: str = "complete") -> StoredRun:
    return StoredRun(ROOT / name, found, status, None if found else "manifest.json is missing")


def test_the_document_of_a_run_has_its_problem_or_its_facts() -> None:
    broken, good = runs_to_json(
        [stored("x", None, UNREADABLE), stored("y", manifest(status="complete", dut={"firmware": "1.2"}))]
    )
    assert broken == {"folder": "runs/x", "status": UNREADABLE, "problem": "manifest.json is missing"}
    assert (good["folder"], good["firmware"], good["transport"]) == ("runs/y", "1.2", NONE)
    assert good["trials"]["included"] == 2


def test_statistics_have_a_class_per_entry_with_null_for_what_the_samples_do_not_allow(tmp_path: Path) -> None:
    samples = [row for n in range(20) for row in collective([0, 0], [100 + n] * 2, iteration=n)]
    found = distributions(measurements(write_run(tmp_path / "run", samples)))
    document = json.loads(json.dumps(statistics_to_json(found, [], incomplete=2), allow_nan=False))
    one = document["classes"][0]
    assert (one["collective"], one["members"], one["size_bytes"], one["algorithm"]) == ("all_reduce", 2, 1000, "ring")
    assert (one["samples"], one["p50_ns"], one["max_ns"], one["p99_ns"]) == (20, 109, 119, None)
    assert one["median_interval_ns"]["low"] <= one["p50_ns"] <= one["median_interval_ns"]["high"]
    assert (document["incomplete"], document["lateness"]) == (2, [])
