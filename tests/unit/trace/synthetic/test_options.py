"""Fields of a description as options, and descriptions as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.trace.synthetic.options import described, option, workload_options
from emulator.trace.synthetic.transformer.pipeline_schedule import PipelineSchedule


@dataclass(frozen=True)
class Described:
    layers: int = option("layers")
    micro_batches: int | None = option("micro-batches", default=None, unset="as many as stages")
    rate: float = option("rate", default=1500.0, flags=("-r", "--rate-of-it"), group="device")
    schedule: PipelineSchedule = option("order", default=PipelineSchedule.GPIPE)
    derived: int = 3


def test_a_field_says_how_it_is_typed_and_what_holds_without_it() -> None:
    layers, micro_batches, rate, schedule = workload_options(Described)
    assert (layers.flags, layers.kind, layers.is_required, layers.text) == (("--layers",), int, True, "layers")
    assert (micro_batches.flags, micro_batches.kind) == (("--micro-batches",), int)
    assert micro_batches.text == "micro-batches (default: as many as stages)"
    assert (rate.flags[0], rate.text, rate.facts.group) == ("-r", "rate (default: 1500)", "device")
    assert schedule.text == "order (default: gpipe)"


def test_parameters_are_plain_and_name_what_is_set() -> None:
    assert described(Described(layers=2)) == {"layers": 2, "rate": "1500", "schedule": "gpipe", "derived": 3}
