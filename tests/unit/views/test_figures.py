"""Figures as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.control.parameter import Parameter
from emulator.results.run_folder.manifest import Scaling
from emulator.views.columns.figures import (
    NONE,
    count_of,
    describe_early,
    describe_scaling,
    describe_warning,
    duration_cell,
    link_rate_cell,
    number_cell,
    payload_cell,
    percent_cell,
    rate_cell,
    transport_of,
)
from tests.support.runs import manifest


@pytest.mark.parametrize("cell", [duration_cell, number_cell, rate_cell, link_rate_cell, percent_cell])
def test_an_unknown_value_is_a_dash(cell) -> None:  # type: ignore[no-untyped-def]
    assert cell(None) == NONE


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (123.4, "123"),
        (12345, "12345"),
        (0.00123, "0.00123"),
        (0.000123, "0.000123"),
        (0.0000123, "1.23e-05"),
        (-1.234, "-1.23"),
    ],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number_cell(value) == text


@given(st.floats(1e-4, 1e12))
def test_a_number_is_off_by_half_a_percent_at_most(value: float) -> None:
    assert float(number_cell(value)) == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize(("value", "text"), [(1.5e9, "1.50"), (3_300, "3.30e-06"), (0, "0")])
def test_rates_of_payload_are_in_gigabytes(value: float, text: str) -> None:
    assert rate_cell(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (16 * 10**11, "1.6 Tbit/s"),
        (10**11, "100 Gbit/s"),
        (2.5e9, "2.5 Gbit/s"),
        (10**8, "100 Mbit/s"),
        (5_000, "5 kbit/s"),
        (5, "5 bit/s"),
    ],
)
def test_rates_of_links_have_their_unit(value: float, text: str) -> None:
    assert link_rate_cell(value) == text


@pytest.mark.parametrize(
    ("fraction", "digits", "text"), [(0.034, 1, "3.4 %"), (0.774, 0, "77 %"), (0.5, 2, "50.00 %"), (0, 1, "0.0 %")]
)
def test_a_fraction_is_shown_as_a_percentage(fraction: float, digits: int, text: str) -> None:
    assert percent_cell(fraction, digits=digits) == text


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (1, ("run",), "1 run"),
        (0, ("run",), "0 runs"),
        (2, ("class", "classes"), "2 classes"),
        (1, ("class", "classes"), "1 class"),
        (1234, ("rank",), "1,234 ranks"),
    ],
)
def test_a_count_agrees_with_its_noun(number: int, words: tuple[str, ...], text: str) -> None:
    assert count_of(number, *words) == text


@pytest.mark.parametrize(
    ("scaling", "text"),
    [
        (Scaling(), ""),
        (Scaling(bytes=0.01), "sizes × 0.01"),  # noqa: RUF001
        (Scaling(bytes=2, compute="skip"), "sizes × 2, compute skipped"),  # noqa: RUF001
        (Scaling(compute="0.5"), "compute time × 0.5"),  # noqa: RUF001
        (Scaling(element_bytes=2), "the trace counts elements of 2 bytes"),
    ],
)
def test_scaling_is_described_only_if_there_is_some(scaling: Scaling, text: str) -> None:
    assert describe_scaling(scaling) == text


def test_a_warning_says_how_often_it_occurred() -> None:
    assert describe_warning("dangling dependency", 1) == "dangling dependency"
    assert describe_warning("dangling dependency", 1200) == "dangling dependency (1,200 times)"


def test_the_transport_is_a_parameter_of_the_run() -> None:
    assert transport_of(manifest()) == NONE
    assert transport_of(manifest(parameters={"transport": Parameter("roce")})) == "roce"


def test_one_early_sample_is_not_several() -> None:
    assert describe_early(1) == "1 sample received payload before it had posted: no bandwidth for it"
    assert describe_early(2) == "2 samples received payload before they had posted: no bandwidth for them"


def test_bytes_that_moved_have_the_units_of_rates() -> None:
    sizes = (412, 999_400, 999_600, 404 << 20, 10**9, 3 * 10**12)
    assert [payload_cell(one) for one in sizes] == ["412 B", "999 kB", "1.00 MB", "424 MB", "1.00 GB", "3.00 TB"]
