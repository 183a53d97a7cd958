"""Whether runs may be compared: what must be the same in all of them, and what only deserves a word.

Refused is what changes the work or the tester: then a difference in time says nothing of the device. Noted is what can
change the times, but is either what the comparison is about or nothing that the runs can be blamed for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emulator.comparison.groups import MeasuredRun, RunGroup
from emulator.control.parameter import Parameter
from emulator.run_folder.manifest import Manifest
from emulator.run_folder.store import firmware_of
from emulator.statistics.classes import ClassKey

NOTED_PARAMETERS = ("iterations", "warmup")
"""They change how much was measured, not what."""
_IGNORED_PARAMETERS = ("timeout", "window")
"""They end a run that hangs, or follow from the trace."""
_ALGORITHM = "algorithm."
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not the same in all runs.

    Attributes:
        what: in words.
        values: value as text → where it holds: groups, or runs of one group.
    """

    what: str
    values: Mapping[str, Sequence[str]]

    def __str__(self) -> str:
        return f"{self.what}: " + "; ".join(f"{value} in {', '.join(where)}" for value, where in self.values.items())


@dataclass(frozen=True, slots=True)
class Comparability:
    """What stands in the way of a comparison (`refused`), and what a reader should know (`notes`)."""

    refused: Sequence[Difference]
    notes: Sequence[str]


def compared_parameters(manifest: Manifest) -> Mapping[str, Parameter]:
    """Parameters that must be equal in runs that are compared."""
    known = manifest.parameters.items()
    return {name: value for name, value in known if name not in (*NOTED_PARAMETERS, *_IGNORED_PARAMETERS)}


def check_comparability(groups: Sequence[RunGroup]) -> Comparability:
    """Compare the manifests of all runs, and the classes they measured."""
    refused = [*_differences(groups, _REQUIRED), *_parameter_differences(groups)]
    refused += [one for group in groups for one in _mixed(group)]
    refused += [] if refused else _class_differences(groups)  # they follow from other differences
    notes = [str(one) for one in _differences(groups, _NOTED)]
    notes += [str(one) for name in NOTED_PARAMETERS for one in _differences(groups, {name: _parameter(name)})]
    return Comparability(refused, [*notes, *_tester_notes(groups), *_order_notes(groups), *_early_notes(groups)])


Fact = Callable[[Manifest], Any]


def _parameter(name: str) -> Fact:
    def fact(manifest: Manifest) -> Any:
        found = manifest.parameters.get(name)
        return None if found is None else f"{found.value} {found.unit}".rstrip()

    return fact


def _network(manifest: Manifest) -> Any:
    """Hosts, their ports and rates, and the links between them; addresses are only names."""
    hosts = manifest.topology.get("hosts") or ()
    ports = [
        {
            **{name: value for name, value in host.items() if name != "interfaces"},
            "interfaces": [
                {name: port.get(name) for name in ("name", "rate_bps", "mtu")} for port in host.get("interfaces") or ()
            ],
        }
        for host in hosts
    ]
    return {"hosts": ports, "network": manifest.topology.get("network")}


def _placement(manifest: Manifest) -> Any:
    return [manifest.topology.get(name) or None for name in ("host_index", "interface_index")]


_REQUIRED: Mapping[str, Fact] = {
    "ranks": lambda manifest: manifest.trace.ranks,
    "trace (digest)": lambda manifest: manifest.trace.digest[:12],
    "placement of ranks": _placement,
    "topology and rates": _network,
    "scaling of sizes": lambda manifest: manifest.scaling.bytes,
    "bytes per element": lambda manifest: manifest.scaling.element_bytes,
    "compute": lambda manifest: manifest.scaling.compute,
    "observation point": lambda manifest: manifest.observation_point,
    "Charkha's version": lambda manifest: manifest.versions.get("charkha"),
}
_NOTED: Mapping[str, Fact] = {
    "clock": lambda manifest: manifest.clock.source,
    "tester hosts": lambda manifest: sorted({host.facts.get("hostname", host.agent) for host in manifest.hosts}),
    "kernel": lambda manifest: sorted({host.facts.get("kernel", "unknown") for host in manifest.hosts}),
    "Python": lambda manifest: manifest.versions.get("python"),
}


def _differences(groups: Sequence[RunGroup], facts: Mapping[str, Fact]) -> Iterator[Difference]:
    for what, fact in facts.items():
        values: dict[str, list[str]] = {}
        for group in groups:
            for run in group.runs:
                where = values.setdefault(_text(fact(run.manifest)), [])
                if group.name not in where:
                    where.append(group.name)
        if len(values) > 1:
            yield Difference(what, _shortened(values))


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)


def _shortened(values: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """Long values from where they begin to differ."""
    if max(map(len, values)) <= _SHOWN_CHARACTERS:
        return values
    same = next((n for n, letters in enumerate(zip(*values, strict=False)) if len(set(letters)) > 1), 0)
    first = max(0, same - _SHOWN_CHARACTERS // 3)
    shown = {f"{'…' * (first > 0)}{text[first : first + _SHOWN_CHARACTERS]}…": where for text, where in values.items()}
    return shown if len(shown) == len(values) else values


def _parameter_differences(groups: Sequence[RunGroup]) -> Iterator[Difference]:
    """Any that is not known to be harmless: a parameter that a later release adds is one.

    Where transports differ, so do their parameters: that need not be said.
    """
    transport = list(_differences(groups, {"transport": _parameter("transport")}))
    yield from transport
    names = {name for group in groups for run in group.runs for name in compared_parameters(run.manifest)}
    names -= {"transport"}
    names = {name for name in names if not (transport and "." in name and not name.startswith(_ALGORITHM))}
    yield from _differences(groups, {name: _parameter(name) for name in sorted(names)})


def _class_differences(groups: Sequence[RunGroup]) -> Iterator[Difference]:
    """Classes that some group has not measured at all, as where another algorithm was chosen."""
    classes = {group.name: {key for run in group.runs for key in run.measurements.classes} for group in groups}
    for key in sorted(set().union(*classes.values())):
        lacking = [name for name, found in classes.items() if key not in found]
        if lacking:
            having = [name for name in classes if name not in lacking]
            yield Difference(f"class {key}", {"measured": having, "not measured": lacking})


def _mixed(group: RunGroup) -> Iterator[Difference]:
    """A group is one version of the device: runs of several would hide in its spread."""
    values: dict[str, list[str]] = {}
    for run in group.runs:
        values.setdefault(_text(_device(run.manifest)), []).append(run.folder.name)
    if len(values) > 1:
        yield Difference(f"device under test within group {group.name}", _shortened(values))


def _device(manifest: Manifest) -> Any:
    profile = manifest.dut.get("profile") or {}
    named = [manifest.dut.get(name) for name in ("vendor", "model")]
    return [*named, firmware_of(manifest), profile.get("digest")]


def _tester_notes(groups: Sequence[RunGroup]) -> Iterator[str]:
    # No refusal: what became slower is less limited by the tester than what it is compared with.
    limited = sorted({key for group in groups for run in group.runs for key in run.limited})
    if limited:
        yield f"the tester is the limit, and may hide a difference of the device, in {'; '.join(map(str, limited))}"
    if all(firmware_of(run.manifest) is None for group in groups for run in group.runs):
        yield "no run names a firmware: the groups are told apart by their folders alone"


def _order_notes(groups: Sequence[RunGroup]) -> Iterator[str]:
    """Runs one group after the other: then a drift of the machine looks like a difference of the device."""
    for other in groups[1:]:
        first, second = groups[0].runs, other.runs
        if min(len(first), len(second)) < 2:
            continue
        if _span(first)[1] < _span(second)[0] or _span(second)[1] < _span(first)[0]:
            yield (
                f"{groups[0].name} and {other.name} were measured one after the other, not in turns: "
                "a drift of the machine would look like a difference of the device"
            )


def _span(runs: Sequence[MeasuredRun]) -> tuple[str, str]:
    created = sorted(run.manifest.created for run in runs)
    return created[0], created[-1]


def _early_notes(groups: Sequence[RunGroup]) -> Iterator[str]:
    early: dict[ClassKey, int] = {}
    for group in groups:
        for run in group.runs:
            for key, times in run.measurements.classes.items():
                early[key] = early.get(key, 0) + times.early
    count = sum(1 for number in early.values() if number)
    if count:
        yield (
            f"in {count} class{'es' * (count != 1)} payload came before a rank had posted (credits are off): "
            "their times are not pure network times"
        )
