"""Options made from the fields of a description."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from emulator.cli.options.workload import add_workload_options, described_by
from emulator.cli.parser import Parser
from emulator.errors import InputError
from emulator.planner.workloads.options import option
from emulator.planner.workloads.pipeline_schedule import PipelineSchedule
from emulator.units import parse_size


@dataclass(frozen=True)
class Described:
    kind: str = option("what", flags=("kind",), metavar="WHAT")
    size_bytes: int = option("size", flags=("-b", "--bytes"), read=parse_size)
    schedule: PipelineSchedule = option("order", default=PipelineSchedule.ONE_F_ONE_B, group="order")
    is_lean: bool = option("lean", default=False)
    limit: float | None = option("limit", default=None, unset="none", is_advanced=True)


def _parsed(*words: str) -> Described:
    parser = Parser(prog="make")
    add_workload_options(parser, Described)
    return described_by(parser.parse_args(list(words)), Described)


def test_arguments_become_values_of_the_fields() -> None:
    given = _parsed("it", "-b", "4K", "--schedule", "gpipe", "--is-lean", "--limit", "2.5")
    assert given == Described("it", 4096, PipelineSchedule.GPIPE, True, 2.5)


def test_what_is_not_given_has_the_default_of_the_field() -> None:
    assert _parsed("it", "-b", "1") == Described("it", 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["it"], "required: -b/--bytes"),
        (["it", "-b", "x"], "'x' is not a size"),
        (["it", "-b", "1", "--schedule", "gpip"], "did you mean 'gpipe'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(InputError) as refused:
        _parsed(*words)
    assert message in str(refused.value)
