"""What is written for readers of nccl-tests, read by a parser for its documented layout."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from emulator.annexes.exports.nccl_tests import MeasuredClass, measured_classes, to_json, to_text
from emulator.errors import ResultError
from emulator.trace.meaning.model import CommKind
from tests.support.runs import Row, collective, pair, write_run

IN_PLACE = ("in_time", "in_algbw", "in_busbw", "in_wrong")
COLUMNS = ("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "wrong", *IN_PLACE)
# By hand, from doc/PERFORMANCE.md: what a group of n multiplies algbw with.
FACTORS = {
    "all_reduce": lambda n: Fraction(2 * (n - 1), n),
    "all_gather": lambda n: Fraction(n - 1, n),
    "reduce_scatter": lambda n: Fraction(n - 1, n),
    "reduce_scatter_block": lambda n: Fraction(n - 1, n),
    "all_to_all": lambda n: Fraction(n - 1, n),
    "gather": lambda n: Fraction(n - 1, n),
    "scatter": lambda n: Fraction(n - 1, n),
    "broadcast": lambda n: Fraction(1),
    "reduce": lambda n: Fraction(1),
}
SHARDS = ("all_gather", "gather")


def parse(text: str) -> list[dict[str, str]]:
    """Rows of nccl-tests' text: lines without `#`, columns by white space."""
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return [dict(zip(COLUMNS, line, strict=True)) for line in lines]


def test_every_collective_that_has_a_speed_is_tried() -> None:
    assert set(FACTORS) == {kind.label for kind in CommKind if kind.is_collective} - {"barrier"}


@pytest.mark.parametrize("members", [2, 3, 8])
@pytest.mark.parametrize("kind", FACTORS)
def test_bandwidths_are_those_worked_out_by_hand(tmp_path: Path, kind: str, members: int) -> None:
    size, micros = 24_000_000, (1500, 2500)
    samples = [
        one
        for iteration, time in enumerate(micros)
        for one in collective([0] * members, [time * 1000] * members, kind=kind, size_bytes=size, iteration=iteration)
    ]
    run = write_run(tmp_path / "run", samples)
    whole = size * members if kind in SHARDS else size
    algbw = Fraction(whole, 2000 * 1000)

    [row] = parse(to_text(run))
    assert int(row["size"]) == whole
    assert (row["type"], row["redop"], row["wrong"]) == ("uint8", "none", "N/A")
    assert float(row["time"]) == 2000
    assert float(row["algbw"]) == pytest.approx(float(algbw), abs=0.05)
    assert float(row["busbw"]) == pytest.approx(float(algbw * FACTORS[kind](members)), abs=0.05)
    assert [row["in_time"], row["in_algbw"], row["in_busbw"]] == [row["time"], row["algbw"], row["busbw"]]

    [result] = json.loads(to_json(run))["results"]
    assert result["out_of_place"]["alg_bw"] == pytest.approx(float(algbw))
    assert result["out_of_place"]["bus_bw"] == pytest.approx(float(algbw * FACTORS[kind](members)))
    assert result["in_place"] is None
    assert result["out_of_place_per_iter"]["times_us"] == [1500, 2500]


def test_a_table_for_each_collective_and_group_size(tmp_path: Path) -> None:
    samples = [
        *collective([0, 0], [1000, 1000], instance=0),
        *collective([0, 0, 0], [1000] * 3, instance=1),
        *collective([0, 0], [1000, 1000], instance=2, size_bytes=500),
        *pair(0, 1000, instance=3),
    ]
    text = to_text(write_run(tmp_path / "run", samples))
    assert [line for line in text.splitlines() if "starting" in line] == [
        "# Collective test starting: all_reduce",
        "# Collective test starting: all_reduce",
        "# Collective test starting: send_recv",
    ]
    assert [row["size"] for row in parse(text)] == ["500", "1000", "1000", "1000"]


def test_payload_that_ran_ahead_has_no_speed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", collective([0, 0], [1000, 1000], early=True))
    [row] = parse(to_text(run))
    assert (row["algbw"], row["busbw"]) == ("N/A", "N/A")
    document = json.loads(to_json(run))
    assert document["results"][0]["out_of_place"]["bus_bw"] is None
    assert document["average_bus_bandwidth"]["bandwidth"] is None


def test_statistics_per_iteration_are_nearest_ranks(tmp_path: Path) -> None:
    samples = [
        one for iteration in range(20) for one in collective([0, 0], [(iteration + 1) * 1000] * 2, iteration=iteration)
    ]
    stats = json.loads(to_json(write_run(tmp_path / "run", samples)))["results"][0]["out_of_place_per_iter"]
    assert (stats["min_us"], stats["p50_us"], stats["p95_us"], stats["p99_us"], stats["max_us"]) == (1, 10, 19, 20, 20)
    assert stats["cv_pct"] == pytest.approx(100 * 35**0.5 / 10.5)  # of 1 to 20: 20 x 21 / 12, by n - 1


def test_nothing_measured_is_an_error(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", collective([0, 0], [1, 1], iteration=-1))
    with pytest.raises(ResultError, match="no measured collective"):
        to_text(run)


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
