"""Whether runs are comparable: what must be equal in all of them, and what is only noted if it differs.

A comparison is refused if the work or the tester differs, because then a difference in time does not come from the
device. A note names what can affect the times but is either the subject of the comparison or outside anybody's control.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emulator.control.parameter import Parameter
from emulator.results.comparison.groups import MeasuredRun, RunGroup, are_apart
from emulator.results.run_folder.manifest import Manifest
from emulator.results.run_folder.store import firmware_of
from emulator.results.statistics.samples.classes import ClassKey
from emulator.results.statistics.tester_model import TESTER_LIMITED_PERCENT

NOTED_PARAMETERS = ("iterations", "warmup")
"""They change how much is measured, not what."""
_IGNORED_PARAMETERS = ("timeout", "window")
"""They only end a run that hangs, or follow from the trace."""
_ALGORITHM = "algorithm."
_SHOWN_CHARACTERS = 60

Fact = Callable[[Manifest], Any]


@dataclass(frozen=True, slots=True)
class RunDifference:
    """Something that is not equal in all runs.

    Attributes:
        what: its name.
        values: each value as text → the groups that have it, or the runs if it differs within a group.
    """

    what: str
    values: Mapping[str, Sequence[str]]

    def __str__(self) -> str:
        return f"{self.what}: " + "; ".join(f"{value} in {', '.join(where)}" for value, where in self.values.items())


@dataclass(frozen=True, slots=True)
class Comparability:
    """Differences that forbid a comparison (`refused`), and notes for the reader."""

    refused: Sequence[RunDifference]
    notes: Sequence[str]

    @property
    def refusal(self) -> str:
        """Why the runs are not comparable, in one line."""
        differences = " | ".join(map(str, self.refused))
        return f"the runs are not comparable (--force compares them anyway): {differences}"


def check_comparability(groups: Sequence[RunGroup]) -> Comparability:
    """Compare the manifests of all runs, and the classes that they measured."""
    refused = [*_differences(groups, _REQUIRED), *_parameter_differences(groups), *_mixed_groups(groups)]
    if not refused:  # other differences usually change the classes, too
        refused = list(_class_differences(groups))
    noted = _NOTED | {name: _parameter(name) for name in NOTED_PARAMETERS}
    notes = [str(one) for one in _differences(groups, noted)]
    return Comparability(refused, [*notes, *_tester_notes(groups), *_order_notes(groups), *_early_notes(groups)])


def compared_parameters(manifest: Manifest) -> Mapping[str, Parameter]:
    """Parameters that must be equal in the runs of a comparison."""
    known = manifest.parameters.items()
    return {name: value for name, value in known if name not in (*NOTED_PARAMETERS, *_IGNORED_PARAMETERS)}


def _parameter(name: str) -> Fact:
    def fact(manifest: Manifest) -> Any:
        found = manifest.parameters.get(name)
        return None if found is None else f"{found.value} {found.unit}".rstrip()

    return fact


def network_of(manifest: Manifest) -> Any:
    """Hosts, their ports and rates, and the links between them, without addresses."""
    return {
        "hosts": [
            host | {"interfaces": [_port(port) for port in host.get("interfaces") or ()]}
            for host in manifest.topology.get("hosts") or ()
        ],
        "network": manifest.topology.get("network"),
    }


def _port(port: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: port.get(name) for name in ("name", "rate_bps", "mtu")}


def _placement(manifest: Manifest) -> Any:
    return [manifest.topology.get(name) or None for name in ("host_index", "interface_index")]


def _device(manifest: Manifest) -> Any:
    profile = manifest.dut.get("profile") or {}
    return [manifest.dut.get("vendor"), manifest.dut.get("model"), firmware_of(manifest), profile.get("digest")]


def _builds(manifest: Manifest) -> Any:
    """How the agents were installed; before there was another way, they were pure."""
    return sorted({host.facts.get("build", "pure") for host in manifest.hosts} or {"pure"})


_REQUIRED: Mapping[str, Fact] = {
    "ranks": lambda manifest: manifest.trace.ranks,
    "trace (digest)": lambda manifest: manifest.trace.digest[:12],
    "placement of ranks": _placement,
    "topology and rates": network_of,
    "scaling of sizes": lambda manifest: manifest.scaling.bytes,
    "bytes per element": lambda manifest: manifest.scaling.element_bytes,
    "compute": lambda manifest: manifest.scaling.compute,
    "events": lambda manifest: (manifest.spec or {}).get("events"),
    "observation point": lambda manifest: manifest.observation_point,
    "end of a collective": lambda manifest: manifest.cct_until.replace("_", " "),
    "Charkha's version": lambda manifest: manifest.versions.get("charkha"),
    "Charkha's build": _builds,
}
_NOTED: dict[str, Fact] = {
    "clock": lambda manifest: manifest.clock.source,
    "tester hosts": lambda manifest: sorted({host.facts.get("hostname", host.agent) for host in manifest.hosts}),
    "kernel": lambda manifest: sorted({host.facts.get("kernel", "unknown") for host in manifest.hosts}),
    "Python": lambda manifest: manifest.versions.get("python"),
}


def _differences(groups: Sequence[RunGroup], facts: Mapping[str, Fact]) -> Iterator[RunDifference]:
    """The facts that are not equal in all runs, with the groups that have each value."""
    runs = [(group.name if groups[1:] else run.folder.name, run) for group in groups for run in group.runs]
    for what, fact in facts.items():
        yield from _difference(what, [(fact(run.manifest), name) for name, run in runs])


def _mixed_groups(groups: Sequence[RunGroup]) -> Iterator[RunDifference]:
    """Groups with several versions of the device, whose difference would be counted as spread between runs."""
    for group in groups:
        devices = [(_device(run.manifest), run.folder.name) for run in group.runs]
        yield from _difference(f"device under test within group {group.name}", devices)


def _difference(what: str, found: Sequence[tuple[Any, str]]) -> Iterator[RunDifference]:
    """At most one difference between (value, where) pairs."""
    values: dict[str, dict[str, None]] = {}
    for value, where in found:
        values.setdefault(_text(value), {})[where] = None
    if len(values) > 1:
        yield RunDifference(what, _shorten({text: list(where) for text, where in values.items()}))


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)


def _shorten(values: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """Long values, cut around the place where they start to differ; unchanged if the cuts are equal."""
    if max(map(len, values)) <= _SHOWN_CHARACTERS:
        return values
    columns = enumerate(zip(*values, strict=False))
    common = next((n for n, letters in columns if len(set(letters)) > 1), min(map(len, values)))
    first = max(0, common - _SHOWN_CHARACTERS // 3)
    shown = {f"{'…' * (first > 0)}{text[first : first + _SHOWN_CHARACTERS]}…": where for text, where in values.items()}
    return shown if len(shown) == len(values) else values


def _parameter_differences(groups: Sequence[RunGroup]) -> Iterator[RunDifference]:
    """Every parameter that is not known to be harmless, including those that a later release adds.

    If transports differ, their own parameters do too, and are not listed.
    """
    transport = list(_differences(groups, {"transport": _parameter("transport")}))
    yield from transport
    names = {name for group in groups for run in group.runs for name in compared_parameters(run.manifest)}
    names -= {"transport"}
    names = {name for name in names if not (transport and "." in name and not name.startswith(_ALGORITHM))}
    yield from _differences(groups, {name: _parameter(name) for name in sorted(names)})


def _class_differences(groups: Sequence[RunGroup]) -> Iterator[RunDifference]:
    """Classes that a group did not measure at all, for example because another algorithm was chosen."""
    classes = {group.name: {key for run in group.runs for key in run.measurements.classes} for group in groups}
    for key in sorted(set().union(*classes.values())):
        missing = [name for name, found in classes.items() if key not in found]
        if missing:
            measured = [name for name in classes if name not in missing]
            yield RunDifference(f"class {key}", {"measured": measured, "not measured": missing})


def _tester_limited(run: MeasuredRun) -> Iterator[ClassKey]:
    network = run.measurements.network  # known: that is what is compared
    shares = run.tester_percent.items()
    yield from (key for key, percent in shares if percent >= TESTER_LIMITED_PERCENT and key not in network)


def _tester_notes(groups: Sequence[RunGroup]) -> Iterator[str]:
    # Not refused: the group that became slower is limited less by the tester than the other one.
    limited = sorted({key for group in groups for run in group.runs for key in _tester_limited(run)})
    if limited:
        yield f"the tester is the limit and may hide a difference of the device in {'; '.join(map(str, limited))}"
    if all(firmware_of(run.manifest) is None for group in groups for run in group.runs):
        yield "no run has a firmware: only their folders distinguish the groups"


def _order_notes(groups: Sequence[RunGroup]) -> Iterator[str]:
    """Groups that did not take turns: a drift of the machine looks like a difference of the device."""
    baseline, *others = groups
    for other in others:
        if are_apart(baseline.runs, other.runs):
            yield (
                f"{baseline.name} and {other.name} were measured one after the other, not alternately: a drift of "
                f"the machine would look like a difference of the device"
            )


def _early_notes(groups: Sequence[RunGroup]) -> Iterator[str]:
    runs = [run for group in groups for run in group.runs]
    early = {key for run in runs for key, times in run.measurements.classes.items() if times.early}
    if early:
        yield (
            f"in {len(early)} class{'es' * (len(early) != 1)} payload arrived before a rank had posted "
            "(credits are off): their times are not pure network times"
        )
