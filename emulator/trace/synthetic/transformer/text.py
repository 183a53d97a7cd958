"""A transformer as text: `layers=96,hidden=12288,tensor=8`."""

from __future__ import annotations

from enum import Enum
from typing import Any

from emulator.errors import PlanError
from emulator.suggestions import did_you_mean
from emulator.trace.synthetic.options import workload_options
from emulator.trace.synthetic.transformer.transformer import Transformer

_DEFAULTS = {"hidden": 8192, "sequence": 2048}


def parse_transformer(text: str) -> Transformer:
    """The model of `layers=96,tensor=8,…`.

    Raises:
        ValueError: an unknown name, a value that is not a number, or numbers that do not fit together.
    """
    known = {one.name: one.kind for one in workload_options(Transformer)}
    values: dict[str, Any] = dict(_DEFAULTS)
    for item in text.split(","):
        name, equals, value = item.strip().replace("-", "_").partition("=")
        if not equals or name not in known:
            advice = did_you_mean(name, known) if equals else ""
            raise ValueError(f"{item!r}: write NAME=VALUE with NAME one of {', '.join(known)}{advice}")
        values[name] = _value(name, value, known[name])
    if "layers" not in values:
        raise ValueError("give layers=N")
    values.setdefault("batch", values.get("data", 1) * values.get("micro_batches", 1))
    try:
        return Transformer(**values)
    except PlanError as error:
        raise ValueError(str(error)) from error


def _value(name: str, text: str, kind: Any) -> Any:
    if issubclass(kind, Enum):
        return kind(text)
    try:
        return bool(int(text)) if kind is bool else kind(text)
    except ValueError as error:
        raise ValueError(f"{name}={text}: give a number") from error
