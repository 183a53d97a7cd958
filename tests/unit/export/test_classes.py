"""The measurements of a run, class by class."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.export.classes import MeasuredClass, measured_classes
from tests.support.runs import Row, collective, pair, write_run


def classes(folder: Path, samples: list[Row]) -> list[MeasuredClass]:
    return list(measured_classes(write_run(folder / "run", samples)))


def test_times_stay_in_the_order_of_the_iterations(tmp_path: Path) -> None:
    samples = [row for n, time in enumerate((300, 100, 200)) for row in collective([0, 0], [time] * 2, iteration=n)]
    [one] = classes(tmp_path, samples)
    assert one.cct_ns.tolist() == [300, 100, 200]
    assert (one.label, one.members, one.size_bytes, one.algorithm) == ("all_reduce", 2, 1000, "ring")


def test_a_negative_time_is_left_out(tmp_path: Path) -> None:
    samples = [*collective([0, 200], [100, 100]), *collective([0, 0], [100, 100], iteration=1)]
    assert classes(tmp_path, samples)[0].cct_ns.tolist() == [100]


def test_a_pair_is_a_send_recv_with_a_factor_of_one(tmp_path: Path) -> None:
    [one] = classes(tmp_path, pair(0, 500))
    assert (one.label, one.busbw_factor, one.cct_ns.tolist()) == ("send_recv", 1, [500])


@pytest.mark.parametrize(
    ("kind", "fields", "factor"),
    [
        ("all_reduce", {}, 1.0),
        ("all_gather", {}, 0.5),
        ("all_reduce", {"early": True}, None),
        ("all_reduce", {"size_bytes": 0}, None),
    ],
)
def test_the_factor_is_that_of_nccl_tests_or_unknown(
    tmp_path: Path, kind: str, fields: dict[str, object], factor: float | None
) -> None:
    [one] = classes(tmp_path, collective([0, 0], [100, 100], kind=kind, **fields))
    assert one.busbw_factor == factor


def test_a_run_without_samples_has_no_classes(tmp_path: Path) -> None:
    assert classes(tmp_path, []) == []
