"""Fields of a description as options, and descriptions as plain values."""

from dataclasses import dataclass

from emulator.annexes.workloads.options import described, option
from emulator.annexes.workloads.transformer import PipelineSchedule
from emulator.option import options_of


@dataclass(frozen=True)
class Described:
    layers: int = option("layers")
    micro_batches: int | None = option("micro-batches", default=None, unset="as many as stages")
    rate: float = option("rate", default=1500.0, flags="-r --rate-of-it", group="device")
    schedule: PipelineSchedule = option("order", default=PipelineSchedule.GPIPE)
    derived: int = 3


def test_a_field_says_how_it_is_typed_and_what_holds_without_it() -> None:
    layers, micro_batches, rate, schedule = options_of(Described)
    assert (layers.flags, layers.read("3"), layers.is_required, layers.text) == (("--layers",), 3, True, "layers")
    assert (micro_batches.flags, micro_batches.read("3")) == (("--micro-batches",), 3)
    assert micro_batches.text == "micro-batches (default: as many as stages)"
    assert (rate.flags[0], rate.text, rate.group) == ("-r", "rate (default: 1500)", "device")
    assert schedule.text == "order (default: gpipe)"


def test_parameters_are_plain_and_name_what_is_set() -> None:
    assert described(Described(layers=2)) == {"layers": 2, "rate": "1500", "schedule": "gpipe", "derived": 3}
