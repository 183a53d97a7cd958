"""What a run will move, in one line."""

from __future__ import annotations

from dataclasses import replace

from emulator.planner.forecast import Forecast
from emulator.units import format_duration, format_size
from emulator.views.columns.figures import count_of


def describe_forecast(forecast: Forecast, *, is_open_ended: bool = False) -> str:
    """`plays 6 iterations (1 warm-up) of 12.5 MiB from 8 ranks (…): 75 MiB in total; at least 18.6 ms at …`.

    Args:
        is_open_ended: it repeats its iterations until other jobs have ended.
    """
    if is_open_ended:
        forecast = replace(forecast, iterations=1)
    each = sum(forecast.sent_bytes) + forecast.read_bytes
    most = f"at most {format_size(max(forecast.sent_bytes))} each"
    storage = f" and {format_size(forecast.read_bytes)} from storage" if forecast.read_bytes else ""
    iterations = f"{count_of(forecast.iterations, 'iteration')} ({forecast.warmup} warm-up)"
    if is_open_ended:
        iterations = "iterations until the other jobs have ended,"
    line = (
        f"plays {iterations} of {format_size(each)} payload"
        f" from {count_of(len(forecast.sent_bytes), 'rank')} ({most}){storage}"
        f" in {count_of(forecast.communications, 'communication')}"
    )
    if is_open_ended:
        line += " each"
    else:
        line += f": {format_size(each * forecast.iterations)} in total"
    least = format_duration(forecast.least_ns * forecast.iterations)
    if forecast.has_rates:
        return f"{line}; at least {least} at the rates of the ports"
    if forecast.least_ns:
        return f"{line}; at least {least} of compute, the ports have no rate"
    return f"{line}; no estimate of the time, the ports have no rate"
