"""The published distributions of flow sizes: their means are those that were published with them."""

from dataclasses import replace
from itertools import islice

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from emulator.errors import PlanError
from emulator.flows.background import BATCH, DISTRIBUTIONS, PATTERNS, Schedule, WireSize, batches, distribution_named


@pytest.mark.parametrize("name", ["web-search", "data-mining"])
def test_the_mean_is_the_published_one(name: str) -> None:
    distribution = DISTRIBUTIONS[name]
    assert distribution.mean_bytes == pytest.approx(distribution.published_mean_bytes, rel=0.005)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_drawn_sizes_have_the_mean_and_the_quantiles_of_the_table(name: str) -> None:
    distribution = DISTRIBUTIONS[name]
    sizes = distribution.sizes((np.arange(1 << 20) + 0.5) / (1 << 20))
    assert sizes.mean() == pytest.approx(distribution.mean_bytes, rel=0.001)
    for size, share in distribution.points:
        at_most = np.mean(sizes <= max(1, size * distribution.unit_bytes))
        assert at_most >= share - 2e-6  # a size that many flows have covers several shares


def test_known_facts_of_the_sources() -> None:
    """Half of data mining's flows are one packet; 70 % of Hadoop's are at most 7 KB; web search's largest has 29 MB."""
    assert set(DISTRIBUTIONS["data-mining"].sizes(np.linspace(0, 0.499, 9))) == {1460}
    assert DISTRIBUTIONS["hadoop"].sizes(np.array([0.7])).tolist() == [7000]
    assert DISTRIBUTIONS["web-search"].sizes(np.array([1.0])).tolist() == [20_000 * 1460]
    assert DISTRIBUTIONS["hadoop"].sizes(np.array([0.0])).tolist() == [1]  # never nothing


def test_fixed_sizes_are_all_alike_and_other_names_are_refused() -> None:
    assert set(distribution_named("fixed", 777).sizes(np.linspace(0, 1, 9))) == {777}
    assert distribution_named("fixed", 777).mean_bytes == 777
    with pytest.raises(PlanError, match=r"no sizes named 'cache'; there are fixed, web-search, data-mining, hadoop"):
        distribution_named("cache", 1)


WIRE = WireSize(packet_bytes=1440, per_packet=98)
PLAIN = Schedule(
    pattern="poisson", sizes="fixed", size_bytes=1440, rate_bps=200_000_000, peak_bps=500_000_000, on_ns=300_000,
    wire=WIRE, seed=(0, 1),
)  # fmt: skip
Ints = npt.NDArray[np.int64]


def drawn(schedule: Schedule, count: int = 8) -> tuple[Ints, Ints]:
    """Due times and sizes of the first batches."""
    found = list(islice(batches(schedule), count))
    return np.concatenate([one.due_ns for one in found]), np.concatenate([one.size_bytes for one in found])


def rate_of(schedule: Schedule, count: int = 40) -> float:
    due, sizes = drawn(schedule, count)
    return float(8e9 * WIRE.wire_bytes(sizes)[:-1].sum() / (due[-1] - due[0]))


def test_poisson_gaps_are_exponential_and_independent() -> None:
    due, _ = drawn(PLAIN)
    gaps = np.diff(due, prepend=0)
    assert gaps.mean() == pytest.approx(1538 * 8 / 0.2, rel=0.02)
    assert stats.kstest(gaps, "expon", args=(0, PLAIN.mean_gap_ns)).pvalue > 0.01
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 0.02


def test_constant_gaps_are_equal_and_flows_begin_at_different_moments() -> None:
    (first, _), (second, _) = (drawn(replace(PLAIN, pattern="constant", seed=(0, n))) for n in (1, 2))
    for due in (first, second):
        assert set(np.diff(due)) <= {61_520, 61_519, 61_521}
        assert 0 <= due[0] < 61_520
    assert first[0] != second[0]


def test_all_senders_of_an_incast_send_at_the_same_moments_messages_of_their_own() -> None:
    spec = replace(PLAIN, pattern="incast", sizes="hadoop")
    (first, one), (second, other) = (drawn(replace(spec, seed=(0, n))) for n in (1, 2))
    assert first[0] == 0
    assert np.array_equal(first, second)
    assert not np.array_equal(one, other)


def test_on_off_sends_at_the_peak_rate_and_pauses() -> None:
    spec = replace(PLAIN, pattern="on-off")
    due, _ = drawn(spec, 40)
    gaps = np.diff(due)
    peak_gap = 1538 * 8 / 0.5
    assert gaps.min() >= peak_gap - 1
    pauses = gaps[gaps > peak_gap + 2] - peak_gap  # an off period, or several with a short on period between
    assert len(pauses) / len(gaps) == pytest.approx(peak_gap / spec.on_ns, rel=0.1)
    assert pauses.mean() == pytest.approx(spec.on_ns * 1.5, rel=0.1)
    assert np.mean(gaps <= peak_gap + 2) == pytest.approx(1 - peak_gap / spec.on_ns, rel=0.02)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("sizes", ["fixed", "hadoop"])
def test_the_mean_rate_on_the_wire_is_what_was_asked_for(pattern: str, sizes: str) -> None:
    spec = replace(PLAIN, pattern=pattern, sizes=sizes)
    assert rate_of(spec) == pytest.approx(200_000_000, rel=0.03 if "fixed" in sizes else 0.05)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_seed_gives_the_same_messages_and_another_one_others(pattern: str) -> None:
    spec = replace(PLAIN, pattern=pattern, sizes="web-search")
    (due, sizes), (again, same) = drawn(spec, 2), drawn(spec, 2)
    other_due, other_sizes = drawn(replace(spec, seed=(5, 1)), 2)
    assert np.array_equal(due, again)
    assert np.array_equal(sizes, same)
    assert not np.array_equal(sizes, other_sizes)
    assert np.array_equal(due, other_due) == (pattern == "incast")
    assert len(due) == 2 * BATCH


def test_the_mean_of_a_message_counts_the_headers_of_every_packet() -> None:
    assert PLAIN.mean_wire_bytes == 1538
    assert replace(PLAIN, size_bytes=1441).mean_wire_bytes == 1441 + 2 * 98
    assert replace(PLAIN, wire=WireSize(1000, 50, 7), size_bytes=2000).mean_wire_bytes == 2107
    assert WIRE.wire_bytes(1) == 99
    assert WIRE.wire_bytes(np.array([1, 2880])).tolist() == [99, 3076]


def test_the_largest_messages_in_the_smallest_packets_have_gaps_above_zero() -> None:
    spec = replace(
        PLAIN, pattern="on-off", sizes="data-mining", wire=WireSize(64, 150), rate_bps=10**6, peak_bps=2 * 10**6
    )
    due, _ = drawn(spec, 4)
    assert np.all(np.diff(due) > 0)
