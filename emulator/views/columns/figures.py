"""Figures as people read them: numbers, rates, percentages and short phrases, for terminals and reports alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from emulator.units import format_duration, format_size

if TYPE_CHECKING:
    from emulator.results.run_folder.manifest import Manifest, Scaling  # loads Arrow
    from emulator.results.statistics.uncertainty import Budget

NONE = "–"  # noqa: RUF001 (an en dash is what tables show for an unknown value)
CCT_UNTIL_DONE = "cct until the last acknowledgement, as Charkha took it before format version 2"
_GIGA = 1e9
_RATE_UNITS = (("Tbit/s", 10**12), ("Gbit/s", 10**9), ("Mbit/s", 10**6), ("kbit/s", 10**3))


def duration_cell(value_ns: float | None) -> str:
    """Nanoseconds with a suitable unit: `87.1 µs`."""
    return NONE if value_ns is None else format_duration(value_ns)


def number_cell(value: float | None) -> str:
    """Three digits: 0.00123, 1.23, 123. An exponent only where zeros would hide the value: 1.23e-06."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    if abs(value) < 1e-4:
        return f"{value:.2e}"
    digits = max(0, min(6, 2 - math.floor(math.log10(abs(value)))))
    return f"{value:.{digits}f}"


def count_cell(value: int | None) -> str:
    """`1,204`."""
    return NONE if value is None else f"{value:,}"


def size_cell(value: int | None) -> str:
    """Bytes with a suitable unit: `64 KiB`."""
    return NONE if value is None else format_size(value)


def payload_cell(size_bytes: int) -> str:
    """Bytes that moved, in the units of rates: `424 MB` is 424 x 10^6 bytes. Sizes of arrays are binary."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= 0.9995 * factor:
            return f"{number_cell(max(1.0, size_bytes / factor))} {unit}"
    return f"{size_bytes} B"


def gbps_cell(bits_per_s: float | None) -> str:
    """Bits per second, shown in Gbit/s (1e9 bits per second) without the unit."""
    return number_cell(None if bits_per_s is None else bits_per_s / _GIGA)


def rate_cell(value: float | None) -> str:
    """Bytes per second, shown in GB/s (1e9 bytes per second) without the unit."""
    return number_cell(None if value is None else value / _GIGA)


def link_rate_cell(rate_bps: float | None) -> str:
    """Bits per second with a suitable unit: `100 Gbit/s`."""
    if rate_bps is None:
        return NONE
    for unit, factor in _RATE_UNITS:
        if rate_bps >= factor:
            return f"{rate_bps / factor:.4g} {unit}"
    return f"{rate_bps:.0f} bit/s"


def give_or_take(budgets: Mapping[str, Budget], name: str) -> str:
    """` ± 0.42 %`, U / figure, or U of a figure in percent; ` (U not stated: one iteration)`; "" without a budget."""
    budget = budgets.get(name)
    if budget is None or budget.relative is None:
        return f" (U not stated: {budget.why})" if budget is not None else ""
    return f" ± {number_cell(budget.expanded if name.endswith('_percent') else 100 * budget.relative)} %"


def percent_cell(fraction: float | None, *, digits: int = 1) -> str:
    """A fraction of 1 as a percentage: `3.4 %`."""
    return NONE if fraction is None else f"{100 * fraction:.{digits}f} %"


def count_of(number: int, noun: str, plural: str = "") -> str:
    """`1 run`, `3 runs`; with a plural of its own, `2 classes`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def describe_early(samples: int) -> str:
    """`2 samples received payload before they had posted: no bandwidth for them`."""
    if samples == 1:
        return "1 sample received payload before it had posted: no bandwidth for it"
    return f"{samples:,} samples received payload before they had posted: no bandwidth for them"


def describe_scaling(scaling: Scaling) -> str:
    """How a run differs from its trace; "" if it does not."""
    parts = []
    if scaling.bytes != 1:
        parts.append(f"sizes × {scaling.bytes:g}")  # noqa: RUF001
    if scaling.compute == "skip":
        parts.append("compute skipped")
    elif scaling.is_scaled and scaling.compute != "replay":
        parts.append(f"compute time × {scaling.compute}")  # noqa: RUF001
    if scaling.element_bytes is not None:
        parts.append(f"the trace counts elements of {scaling.element_bytes} bytes")
    return ", ".join(parts)


def describe_warning(warning: str, count: int) -> str:
    """A warning and how often it occurred."""
    return f"{warning} ({count:,} times)" if count != 1 else warning


def transport_of(manifest: Manifest) -> str:
    """Name of the transport, or a dash."""
    found = manifest.parameters.get("transport")
    return NONE if found is None else str(found.value)
