"""The summary of a run as a JSON document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from emulator.results.run_folder.manifest import Scaling
from emulator.results.statistics.summary import summarise
from emulator.views.as_json.summary import summary_to_json
from tests.support.runs import collective, ranks, write_run


def document(folder: Path, **facts: Any) -> dict[str, Any]:
    run = write_run(folder / "run", collective([0, 0], [100, 100]), **facts)
    found = json.loads(json.dumps(summary_to_json(summarise(run)), allow_nan=False))
    assert isinstance(found, dict)
    return found


def test_the_scaling_of_sizes_is_named_as_a_factor(tmp_path: Path) -> None:
    found = document(tmp_path, scaling=Scaling(bytes=0.5, compute="skip"))["scaling"]
    assert (found["bytes_factor"], found["compute"]) == (0.5, "skip")
    assert "bytes" not in found


def test_exposed_communication_is_what_compute_does_not_hide(tmp_path: Path) -> None:
    spent = ranks((0, 500), (0, 400), compute=300, communication=200, overlap=50)
    found = document(tmp_path, iterations={0: spent})["iteration"]
    assert (found["exposed_ns"], found["overlap_fraction"]) == (150, 0.25)


def test_a_run_without_iterations_has_null(tmp_path: Path) -> None:
    assert document(tmp_path)["iteration"] is None


def test_each_class_says_whether_the_tester_limited_it(tmp_path: Path) -> None:
    [one] = document(tmp_path)["classes"]
    assert one["tester_limited"] in (None, False)
