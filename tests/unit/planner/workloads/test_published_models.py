"""Parameters of published models."""

from __future__ import annotations

import pytest

from emulator.planner.workloads.published_models import MODELS


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("llama-3.1-405b", 405_853_388_800),
    ],
)
def test_parameters_are_those_of_the_published_weights(name: str, parameters: int) -> None:
    assert MODELS[name].parameters == parameters
