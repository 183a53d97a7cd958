"""Text forms of sizes, rates and durations."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.units import (
    digits,
    format_duration,
    format_size,
    parse_duration,
    parse_fraction,
    parse_moment,
    parse_number,
    parse_rate,
    parse_size,
    parse_whole,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("8", 8),
        ("8B", 8),
        ("1K", 1024),
        ("1k", 1024),
        ("1KB", 1000),
        ("64MB", 64 * 10**6),
        ("64 mb", 64 * 10**6),
        ("1GB", 10**9),
        ("1KiB", 1024),
        (" 64 M ", 64 << 20),
        ("4GiB", 4 << 30),
        ("2t", 2 << 40),
    ],
)
def test_sizes_are_those_of_nccl_tests(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "K", "-1", "1.5K", "1Ki", "1P", "1 000", "8 bytes", "1e6", "٣", "1\u212a"])
def test_a_wrong_size_is_refused_with_a_right_one(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not a size: write bytes, or a whole number with K, .* \(1K = 1KiB = 1024, 1KB = 1000\)"
    ):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100Gbit", 100 * 10**9),
        ("400 Mbps", 400 * 10**6),
        ("1.5Tbit/s", 1_500 * 10**9),
        ("0.1Gb/s", 10**8),
        ("9600bit", 9600),
        ("64kbit", 64_000),
        ("64Kbit", 64_000),
        ("450GB/s", 3_600 * 10**9),
    ],
)
def test_rates_have_a_unit_and_decimal_letters(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "100", "100G", "100GB", "-1Gbit", "1 gbit", "1,5Gbit", "Gbit"])
def test_a_wrong_rate_is_refused_with_a_right_one(text: str) -> None:
    with pytest.raises(ValueError, match="is not a rate: give a number with a unit, such as 100Gbit or 400Mbit"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (7, "7 B"),
        (1023, "1023 B"),
        (64 << 10, "64 KiB"),
        (1_268_777, "1.21 MiB"),
        (3 << 30, "3 GiB"),
        (5 << 40, "5 TiB"),
    ],
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0 ns"),
        (412, "412 ns"),
        (999.4, "999 ns"),
        (999.6, "1 µs"),
        (87_100, "87.1 µs"),
        (999_400, "999 µs"),
        (999_600, "1 ms"),
        (3_020_000, "3.02 ms"),
        (999_600_000, "1 s"),
        (14_200_000_000, "14.2 s"),
        (999_600_000_000, "1000 s"),
        (7_200_000_000_000, "7200 s"),
        (-87_100, "-87.1 µs"),
    ],
)
def test_durations_for_people_never_in_powers_of_ten(duration_ns: float, text: str) -> None:
    assert format_duration(duration_ns) == text


@pytest.mark.parametrize(("text", "ns"), [("5us", 5_000), ("1.5 ms", 1_500_000), ("2s", 2 * 10**9), ("7µs", 7_000)])
def test_a_span_of_time_is_read_with_its_unit(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize("text", ["5", "us", "5 weeks", "-1us", ""])
def test_a_span_of_time_without_a_unit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time: give a number with a unit"):
        parse_duration(text)


@given(st.integers(0, 1 << 50))
def test_a_size_for_people_is_within_half_a_hundredth_of_its_unit(size_bytes: int) -> None:
    number, unit = format_size(size_bytes).split()
    factor = parse_size(f"1{unit}")
    assert abs(float(number) * factor - size_bytes) <= factor / 200


@given(st.integers(1, 4000), st.sampled_from([1, 1 << 10, 1 << 20, 1 << 30, 1 << 40]))
def test_whole_sizes_survive_writing_and_reading(count: int, factor: int) -> None:
    text = format_size(count * factor)
    assert "." in text or parse_size(text) == count * factor


@pytest.mark.parametrize(("power", "unit"), list(enumerate(["B", "KiB", "MiB", "GiB", "TiB"])))
def test_a_unit_begins_at_one_of_it(power: int, unit: str) -> None:
    assert format_size(1024**power) == f"1 {unit}"
    assert format_size(1024**power - 1).split()[1] != unit or power == 0


@given(st.integers(0, 10**15))
def test_a_duration_for_people_is_read_back_to_three_digits(duration_ns: int) -> None:
    read = parse_duration(format_duration(duration_ns))
    assert abs(read - duration_ns) <= max(0.0051 * duration_ns, 0.5)


@given(st.integers(0, 10**6), st.sampled_from("kKMGT"), st.sampled_from(["bit", "bps", "b/s", "bit/s"]))
def test_a_rate_means_the_same_in_every_spelling(count: int, letter: str, unit: str) -> None:
    power = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4}[letter]
    assert parse_rate(f"{count}{letter}{unit}") == parse_rate(f" {count} {letter}{unit} ") == count * 1000**power


@given(st.text())
@pytest.mark.parametrize("parse", [parse_size, parse_rate, parse_duration])
def test_any_text_is_a_quantity_or_refused_with_an_example(parse: Callable[[str], int], text: str) -> None:
    try:
        found = parse(text)
    except ValueError as error:
        problem = str(error)
    else:
        problem = "" if found >= 0 else "negative"
    assert problem == "" or "write" in problem or "give" in problem


NOW = datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("12h", "2026-03-01T00:00+02:00"),
        ("7d", "2026-02-22T12:00+02:00"),
        ("2w", "2026-02-15T12:00+02:00"),
        ("0h", "2026-03-01T12:00+02:00"),
        ("2026-01-31", "2026-01-31T00:00+02:00"),
        ("2026-01-31T18:00", "2026-01-31T18:00+02:00"),
        ("2026-01-31T18:00Z", "2026-01-31T18:00+00:00"),
    ],
)
def test_a_moment_is_a_date_or_a_time_ago(text: str, moment: str) -> None:
    assert parse_moment(text, now=NOW) == datetime.fromisoformat(moment)


@pytest.mark.parametrize("text", ["", "yesterday", "7", "7m", "-7d", "2026-13-01", "999999w", "1000000h"])
def test_another_moment_is_refused_with_right_ones(text: str) -> None:
    with pytest.raises(ValueError, match="write a date as 2026-01-31 or 2026-01-31T18:00, or an age such as 7d"):
        parse_moment(text, now=NOW)


@pytest.mark.parametrize(("text", "fraction"), [("3%", 0.03), ("0.03", 0.03), ("99.9%", 0.999), ("1e-3", 0.001)])
def test_a_fraction_is_a_number_or_a_percentage(text: str, fraction: float) -> None:
    assert parse_fraction(text) == pytest.approx(fraction)


@pytest.mark.parametrize("text", ["", "%", "x", "0", "1", "100%", "0%", "-3%", "nan", "inf", "3 %%"])
def test_a_number_outside_is_not_a_fraction(text: str) -> None:
    with pytest.raises(ValueError, match=r"write it as 3% or 0\.03"):
        parse_fraction(text)


@pytest.mark.parametrize(("text", "value"), [("2", 2.0), ("0.5", 0.5), ("1e3", 1000.0)])
def test_a_number_has_no_unit_of_its_own(text: str, value: float) -> None:
    assert parse_number(text, unit="seconds", most=1000) == value


@pytest.mark.parametrize("text", ["0", "-1", "1001", "nan", "inf", "1s", ""])
def test_a_number_out_of_range_is_refused_with_its_unit(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}': give a number of frames above 0 to 1000"):
        parse_number(text, unit="frames", most=1000)
    with pytest.raises(ValueError, match=r"give a number of frames from 0\.5"):
        parse_number("0.4", unit="frames", least=0.5)


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * 40, 10**40 - 1)])
def test_digits_are_a_number(text: str, number: int) -> None:
    assert digits(text) == number


@pytest.mark.parametrize("text", ["", "-1", "+1", "1_0", " 1", "²", "٣", "1e3", "0x1", "9" * 41, "9" * 5000])
def test_what_else_there_is_besides_digits_is_none(text: str) -> None:
    assert digits(text) is None


@pytest.mark.parametrize("text", ["", "-", "--1", "٣", "1.0", "9" * 5000])
def test_what_is_not_a_whole_number_is_refused_in_few_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"^'.{0,40}': give a whole number$"):
        parse_whole(text)


def test_a_whole_number_may_be_negative() -> None:
    assert [parse_whole("-12"), parse_whole("12", least=12, most=12)] == [-12, 12]
