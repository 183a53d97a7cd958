import pytest

from emulator.annexes.series.sweep_grid import Axis, parse_axis, parse_range
from emulator.errors import InputError
from emulator.experiment.spec.spec import Experiment, Job, Sweep

BENCH = Experiment(jobs=(Job(sweep=Sweep(collective="all_reduce", ranks=2)),))


def test_values_are_listed_as_they_are_written() -> None:
    assert parse_axis("path-mtu=1024, 4096", BENCH) == Axis(
        "path_mtu", "network.transport.options.path_mtu", ("1024", "4096")
    )


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1:4:1", ["1", "2", "3", "4"]),
        ("1:8:x2", ["1", "2", "4", "8"]),
        ("1:9:3", ["1", "4", "7"]),
        ("0:0.3:0.1", ["0", "0.1", "0.2", "0.3"]),
        ("64K:1M:x4", ["64KiB", "256KiB", "1MiB"]),
        ("1000:1400:200", ["1000", "1200", "1400"]),
        ("100Mbit:300Mbit:100Mbit", ["100000000bit", "200000000bit", "300000000bit"]),
        ("1:2:x1.5", ["1", "1.5"]),
        ("0ms:20ms:10ms", ["0ms", "10ms", "20ms"]),
        ("1s:2s:500500us", ["1000ms", "1500500us"]),
    ],
)
def test_a_range_is_arithmetic_or_geometric_and_keeps_its_unit(text: str, values: list[str]) -> None:
    assert parse_range(text) == values


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("qps", "write NAME=VALUES"),
        ("qps=", "write NAME=VALUES"),
        ("qps=1,,2", "a value is empty"),
        ("qps=1,2,1", "1 is given twice"),
        ("qps=1:2", "write 1,2,4 or FIRST:LAST:STEP"),
        ("qps=4:1:1", "never gets from 4 to 1"),
        ("qps=1:4:0", "never gets from 1 to 4"),
        ("qps=1:4:x1", "never gets from 1 to 4"),
        ("qps=1:100000:1", "more than 1,000 values"),
        ("qps=a:b:c", "is not a number, a size such as 64K, a rate"),
        ("qps=1:b:1", "--vary qps: "),
        ("qsp=1", "no such setting"),
    ],
)
def test_what_is_no_axis_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_axis(text, BENCH)
