"""What is refused is said by its path; values that ask for nothing pass; the page lists all of it."""

from __future__ import annotations

import json

import pytest

from emulator.annexes.service.model import Refusal
from emulator.annexes.service.otg.measured import COLUMNS
from emulator.annexes.service.otg.model import Config, MetricsRequest
from emulator.annexes.service.otg.refused import REFUSED, arrived
from tests.support.command import ROOT
from tests.support.otg import changed, configuration

PAGE = (ROOT / "docs" / "otg.md").read_text()
PASSING = {path: one.only for path, one in REFUSED.items() if one.only is not None and path.startswith("ccl.")}


@pytest.mark.parametrize("path", [path for path in PASSING if path != "ccl.include_loop_metrics"])
def test_a_value_that_asks_for_nothing_passes(path: str) -> None:
    assert arrived(changed(path.replace("[]", "[0]"), PASSING[path]), Config).ccl.name == "demo"


def test_loops_are_summed() -> None:
    arrived({"choice": "ccl", "ccl": {"include_loop_metrics": False}}, MetricsRequest)
    with pytest.raises(Refusal, match=r"ccl\.include_loop_metrics: loops are summed"):
        arrived({"choice": "ccl", "ccl": {"include_loop_metrics": True}}, MetricsRequest)


def test_numbers_are_not_truth_values() -> None:
    with pytest.raises(Refusal, match=r"tail_latency_cdf\.enable"):
        arrived(changed("ccl.tail_latency_cdf.enable", 0), Config)


def test_unknown_keys() -> None:
    with pytest.raises(Refusal, match=r"tail_latency_cdf\.enabled: unknown key"):
        arrived(changed("ccl.tail_latency_cdf.enabled", False), Config)
    with pytest.raises(Refusal, match="ccl: unknown key 'stagez'"):
        arrived(changed("ccl.stagez", []), Config)


def test_deep_documents() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(Refusal, match="nested too deeply"):
        arrived(configuration() | {"devices": deep}, Config)


def test_the_page_lists_what_is_refused_and_what_is_measured() -> None:
    for path, one in REFUSED.items():
        passes = "" if one.only is None else f"`{json.dumps(one.only).strip(chr(34))}`"
        assert f"| `{path}` | {passes} | {one.why} |" in PAGE
    assert [name for name in COLUMNS if f"`{name}`" not in PAGE] == []
