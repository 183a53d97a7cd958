"""The table of nccl-tests, read by what people read nccl-tests with."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.trace.meaning.model import CommKind
from emulator.views.nccl_table import NcclRow, nccl_number, nccl_table

GOLDEN = """\
# Collective test starting: all_reduce
# nRanks 4 minBytes 1024 maxBytes 1048576 warmup iters: 1 iters: 20 agg iters: 1 validation: 0 graph: 0
# charkha run x
# time, algbw and busbw are means over the iterations
# bytes are moved, nothing is summed: in-place repeats out-of-place
# sizes: 1 KiB to 1 MiB, in powers of 1,024 (1 KB is 1,000 bytes)
# algorithms: direct up to 1024 B, then ring
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024          1024     uint8    none      -1    20.00  0.0512  0.0768     N/A    20.00  0.0512  0.0768     N/A
     1048576       1048576     uint8    none      -1  1050.00   0.999    1.50     N/A  1050.00   0.999    1.50     N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.787383
#
# Collective test concluded: all_reduce"""

COLUMNS = re.compile(
    r"^\s*(\d+)\s+(\d+)\s+(\w+)\s+(\w+)\s+(-?\d+)"
    r"\s+(\d+\.?\d*)\s+(\d+\.?\d*)\s+(\d+\.?\d*)\s+(\d+|N/A)"
    r"\s+(\d+\.?\d*)\s+(\d+\.?\d*)\s+(\d+\.?\d*)\s+(\d+|N/A)\s*$"
)
BUSBW = re.compile(r"^\s*\d+(?:\s+\S+){6}\s+(\d+\.\d+|\d+)\s")
AVERAGE = re.compile(r"^# Avg bus bandwidth\s*:\s*(\d+(?:\.\d+)?)\s*$", re.MULTILINE)


def row(kind: CommKind = CommKind.ALL_REDUCE, **fields: object) -> NcclRow:
    known = {"members": 4, "size_bytes": 1024, "algorithm": "direct", "time_us": 20.0}
    return NcclRow(kind, **known | fields)


def lines(*rows: NcclRow) -> list[str]:
    return list(nccl_table(rows, label="all_reduce", warmup=1, iterations=20, notes=["charkha run x"]))


def test_the_table_is_that_of_nccl_tests() -> None:
    assert "\n".join(lines(row(), row(size_bytes=1 << 20, algorithm="ring", time_us=1050.0))) == GOLDEN


@given(
    st.lists(
        st.builds(
            NcclRow,
            kind=st.sampled_from([kind for kind in CommKind if kind is not CommKind.RECV]),
            members=st.integers(1, 4096),
            size_bytes=st.integers(0, 1 << 40),
            algorithm=st.sampled_from(["", "ring"]),
            time_us=st.floats(1e-3, 1e12),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_three_expressions_for_nccl_tests_match_every_row(rows: list[NcclRow]) -> None:
    text = lines(*rows)
    measured = [line for line in text if not line.startswith("#")]
    assert len(measured) == len(rows)
    for line, one in zip(measured, rows, strict=True):
        columns = COLUMNS.match(line)
        assert columns, line
        assert columns.groups()[5:9] == columns.groups()[9:]
        found = BUSBW.match(line)
        assert found, line
        assert found[1] == columns[8]
        assert float(found[1]) == pytest.approx(one.busbw, rel=0.01, abs=0.5)
    average = AVERAGE.search("\n".join(text))
    assert average
    assert float(average[1]) == pytest.approx(sum(one.busbw for one in rows) / len(rows), rel=1e-5)


def test_a_bandwidth_that_would_mislead_is_left_out() -> None:
    text = lines(row(is_comparable=False), row(time_us=-0.4))
    assert text[-6].split()[5:9] == ["20.00", "N/A", "N/A", "N/A"]
    assert text[-5].split()[5:9] == ["-0.40", "N/A", "N/A", "N/A"]
    assert text[-3] == "# Avg bus bandwidth    : N/A"


def test_a_group_of_one_and_a_barrier_have_no_bus() -> None:
    text = lines(row(members=1), row(CommKind.BARRIER, size_bytes=0))
    assert [line.split()[6:8] for line in text[-6:-4]] == [["0.0512", "0.00"], ["0.00", "0.00"]]
    assert text[-3] == "# Avg bus bandwidth    : 0"


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        (CommKind.ALL_REDUCE, 800),
        (CommKind.BROADCAST, 800),
        (CommKind.REDUCE, 800),
        (CommKind.ALL_GATHER, 100),
        (CommKind.REDUCE_SCATTER, 100),
        (CommKind.ALL_TO_ALL, 100),
        (CommKind.GATHER, 100),
        (CommKind.SCATTER, 100),
    ],
)
def test_count_is_that_of_one_rank_where_ranks_have_parts(kind: CommKind, count: int) -> None:
    (line,) = (line for line in lines(row(kind, members=8, size_bytes=800)) if not line.startswith("#"))
    assert line.split()[:2] == ["800", str(count)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "N/A"),
        (0.0, "0.00"),
        (5e-6, "0.00000500"),
        (0.005001, "0.00500"),
        (0.99999, "1.000"),
        (9999.99, "9999.99"),
        (12_345.67, "12345.7"),
        (1_234_567.8, "1234568"),
        (12_345_678.9, "12345679"),
        (-1234.5, "-1234.5"),
    ],
)
def test_numbers_have_two_decimals_while_they_fit_and_three_digits_below_one(value: float | None, text: str) -> None:
    assert nccl_number(value, 7) == text


def test_algorithms_are_told_with_the_sizes_they_end_at() -> None:
    rows = [row(size_bytes=size, algorithm=name) for size, name in ((8, "a"), (16, "a"), (32, "b"), (64, "a"))]
    assert "# algorithms: a up to 16 B, then b up to 32 B, then a" in lines(*rows)
