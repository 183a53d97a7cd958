"""What is settled before any traffic, and refused if it cannot be."""

from __future__ import annotations

from emulator.experiment.settle.settled import Identity


def test_runs_of_the_same_moment_have_different_ids() -> None:
    one, other = Identity.new(["charkha"]), Identity.new(["charkha"])
    assert one.run_id != other.run_id
    assert one.command_line == ("charkha",)
