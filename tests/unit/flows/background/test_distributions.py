"""The published distributions of flow sizes: their means are those that were published with them."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.errors import PlanError
from emulator.flows.background.distributions import DISTRIBUTIONS, distribution_named


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
