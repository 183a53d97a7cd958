"""README.txt of the folder for ASTRA-sim: command line, residuals as a table, limits of the simulator."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.annexes.exports.astra_sim.judgement import Judged
from emulator.annexes.exports.astra_sim.workload import PREFIX
from emulator.units import format_duration

_BACKEND = "AstraSim_Analytical_Congestion_Unaware"


def readme(
    run_id: str, judged: Sequence[Judged], limits: Sequence[str], *, has_groups: bool, can_simulate: bool
) -> str:
    """The text.

    Args:
        run_id: of the run.
        judged: the dimensions of the network.
        limits: where the simulator differs from the run, a sentence each.
        has_groups: whether groups.json has groups.
        can_simulate: whether system-simulate.json exists.
    """
    group_option = " --comm-group-configuration=groups.json" if has_groups else ""
    parts = [
        f"""Charkha run {run_id} for ASTRA-sim (analytical backend). In this folder:

  {_BACKEND} --workload-configuration={PREFIX}{group_option} \\
    --system-configuration=system-replay.json --network-configuration=network.yml \\
    --remote-memory-configuration=memory.json

replays the measured durations.""",
        _SIMULATION if can_simulate else _NO_SIMULATION,
    ]
    if limits:
        parts.append("Where ASTRA-sim differs from the run:\n" + "\n".join(f"  - {one}." for one in limits))
    parts.append("Fit of network.yml, details in fit.json:\n" + "\n".join(f"  {one}" for one in judged))
    parts.extend(filter(None, map(_table, judged)))
    return "\n\n".join(parts) + "\n"


_SIMULATION = """With system-simulate.json instead, ASTRA-sim simulates the collectives on the fitted network. The
congestion-aware backend stores and forwards at the switch: there the time of a large message is twice that of the fit.
The congestion-unaware backend does not share a port between messages that a rank sends at the same time."""
_NO_SIMULATION = (
    "Collectives cannot be simulated: the run gives no fit for the network, so there is no system file for it."
)


def _table(judged: Judged) -> str:
    """Measured, fitted and simulated time of each class; "" without a fit."""
    if judged.dimension.fit is None:
        return ""
    simulated = {id(point.fitted): point for point in judged.points}
    rows = [("class", "measured", "fit", "off", "simulated", "off", "as")]
    for point in judged.dimension.fit.points:
        row = (
            point.observation.label,
            format_duration(point.observation.cct_ns),
            format_duration(point.predicted_ns),
            f"{100 * point.residual:+.1f} %",
        )
        found = simulated.get(id(point))
        rows.append(
            (*row, format_duration(found.simulated_ns), f"{100 * found.residual:+.1f} %", found.algorithm or "message")
            if found
            else (*row, "replayed", "", "")
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return f"{judged.dimension.link.value}:\n" + "\n".join(f"  {line}" for line in lines)
