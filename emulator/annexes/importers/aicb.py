"""Workloads of AICB for SimAI, and of ASTRA-sim 1.0: a line per layer with compute times and collectives.

The forward pass runs through the layers, the backward pass through them in reverse. A layer's forward and backward
collectives end before the next layer begins; those of its weight gradients run beside what follows. As in SimAI. Of
ASTRA-sim's own parallelisms, DATA is read: all ranks reduce weight gradients, computed before those of the inputs.

Source: aliyun/aicb at 23eec3c (workload_generator/SimAI_training_workload_generator.py: fields, times in ns);
aliyun/SimAI at cef83f9 (astra-sim/workload/Workload.cc: order; astra-sim/system/MockNcclGroup.cc: groups, sizes are
those of the whole array); ASTRA-sim 1.0 (Workload.cc: order; collective/Ring.cc: an all-gather's size is the shard's).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from emulator.annexes.importers.model import (
    Fate,
    ImportedRank,
    ImportedTrace,
    Importer,
    Losses,
    NodeList,
    NodeResource,
    RecordedOperation,
)
from emulator.annexes.importers.recorded_calls import LONGEST_TRACE_NS
from emulator.annexes.importers.text_files import file_head, files_of_format, of_line, read_lines
from emulator.errors import TraceError
from emulator.trace.meaning.meaning import MAX_SIZE_BYTES
from emulator.trace.meaning.model import CommKind
from emulator.trace.synthetic.synthetic import LARGEST_JOB_NODES
from emulator.units import digits

NAME = "aicb"
_MICRO = b"MICRO"
_FIELDS = 12
_DATA = b"DATA"
_READ = (b"HYBRID_TRANSFORMER_FWD_IN_BCKWD", _MICRO, _DATA)
_HEAD = re.compile(
    rb"^(?P<parallelism>HYBRID_TRANSFORMER\w*|HYBRID_\w+|TRANSFORMER\w*|DLRM\w*|MODEL|DATA|MICRO|DISTRIBUTED_INFERENCE)"
    rb"\b[^\n]*\n\s*\d+\s*(\n|$)"
)
_TABLE = re.compile(rb"(?=[^\n]*\bcomm_type\b)(?=[^\n]*\bcomm_group\b)[^\n]*\bmsg_size\b")
"""How AICB's table of calls begins, its "physical" workload and log."""
_NAME, _NUMBER = re.compile(r"[A-Za-z_]+:"), re.compile(r"(?!-0)-?\d+(\.0+)?", re.ASCII)
_OF_LAYERS = {"checkpoints", "checkpoint_initiates"}
"""Settings after whose number the numbers of so many layers follow."""
_MOST_LAYERS = 1 << 20
_KNOWN = {"model_parallel_NPU_group", "ep", "expert_parallel_npu_group", "pp", "all_gpus", "vpp", "ga", "pp_comm"}
_KNOWN |= _OF_LAYERS
_KINDS = {
    "ALLREDUCE": CommKind.ALL_REDUCE,
    "ALLGATHER": CommKind.ALL_GATHER,
    "REDUCESCATTER": CommKind.REDUCE_SCATTER,
    "ALLTOALL": CommKind.ALL_TO_ALL,
    "BROADCAST": CommKind.BROADCAST,
}
PLACEHOLDER_NS = 1
"""AICB writes it where it knows no compute time."""


@dataclass(frozen=True, slots=True)
class _LayerPart:
    """Compute time of a pass of a layer, and the collective after it; kind None: none."""

    compute_ns: int
    kind: CommKind | None
    size_bytes: int
    group: str


@dataclass(frozen=True, slots=True)
class _Layer:
    name: str
    where: str
    forward: _LayerPart
    backward: _LayerPart
    weights: _LayerPart


@dataclass(frozen=True, slots=True)
class _Layout:
    """How ranks are divided: tensor parallelism innermost, then data parallelism, pipeline stages outermost."""

    ranks: int
    tensor: int
    expert: int
    pipeline: int

    def members(self, group: str, rank: int) -> tuple[int, ...]:
        """World ranks of a rank's group `TP`, `DP`, `EP` or `DP_EP`."""
        stage = self.ranks // self.pipeline
        begin = rank // stage * stage
        tensor = (rank - begin) % self.tensor
        data = (rank - begin) // self.tensor
        replicas = stage // self.tensor
        if group == "TP":
            first = begin + data * self.tensor
            return tuple(range(first, first + self.tensor))
        chosen: Sequence[int] = range(replicas)
        if group == "EP":
            chosen = range(data // self.expert * self.expert, data // self.expert * self.expert + self.expert)
        elif group == "DP_EP":
            chosen = range(data % self.expert, replicas, self.expert)
        return tuple(begin + one * self.tensor + tensor for one in chosen)


@dataclass(slots=True)
class _AicbWorkload:
    """A file."""

    path: Path
    parallelism: bytes
    settings: Mapping[str, int]
    layers: list[_Layer] = field(default_factory=list)


def is_aicb(head: bytes) -> bool:
    """Whether a file that begins so is a workload of AICB, or of ASTRA-sim 1.0."""
    return bool(_HEAD.search(head) or _TABLE.match(head))


def read_aicb(
    path: Path, *, ranks: int | None = None, on_rank: Callable[[int, int], None] | None = None
) -> ImportedTrace:
    """Read a workload file.

    Args:
        ranks: to play it with; None: as many as the file says.

    Raises:
        TraceError: there is none, or several; a line is damaged; ranks cannot be divided as the file says.
    """
    files = files_of_format(path, is_aicb)
    if len(files) != 1:
        problem = "holds no workload of AICB" if not files else f"holds {len(files)} workloads of AICB: name one file"
        raise TraceError(problem, path=path)
    if _TABLE.match(file_head(files[0])):
        problem = "is AICB's table of the calls of one process (CSV), which names groups and not their ranks"
        raise TraceError(f"{problem}: let AICB write the workload for SimAI (.txt), which can be read", path=files[0])
    losses = Losses()
    workload = _read(files[0], losses)
    layout = _layout(workload, ranks, losses)
    per_rank = 6 * len(workload.layers)
    if per_rank * layout.ranks > LARGEST_JOB_NODES:
        problem = f"has {layout.ranks:,} ranks of up to {per_rank:,} nodes; the most is {LARGEST_JOB_NODES:,} in all"
        raise TraceError(f"{problem}: play it with fewer, --ranks N", path=files[0])
    trace = ImportedTrace.of(
        path,
        NAME,
        range(layout.ranks),
        lambda rank: _AicbBuilder(workload, layout, rank).rank(),
        world_size=layout.ranks,
        losses=losses,
        on_rank=on_rank,
    )
    if not any(one.nodes for one in trace.ranks):
        raise TraceError("has neither compute time nor a collective: there is nothing to play", path=files[0])
    return trace


def _read(path: Path, losses: Losses) -> _AicbWorkload:
    lines = [(number, line) for number, line, _ in read_lines(path) if line.strip()]
    parallelism = lines[0][1].split()[0]
    if parallelism not in _READ:
        problem = f"is a workload of ASTRA-sim 1.0 with the parallelism {parallelism.decode('utf-8', 'replace')}, whose"
        raise TraceError(
            f"{problem} groups are in ASTRA-sim's system file; {', '.join(one.decode() for one in _READ)} can be read",
            path=of_line(path, lines[0][0]),
        )
    settings = _settings(lines[0][1], of_line(path, lines[0][0]), losses)
    workload = _AicbWorkload(path, parallelism, settings)
    said = digits(lines[1][1].strip().decode("ascii", "replace")) if len(lines) > 1 else None
    expected = -1 if said is None else said
    if len(lines) - 2 != expected:
        problem = f"announces {expected} layers and has {max(0, len(lines) - 2)}: the file is cut off or damaged"
        raise TraceError(problem, path=of_line(path, lines[min(1, len(lines) - 1)][0]))
    for number, line in lines[2:]:
        workload.layers.append(_layer(line, of_line(path, number), parallelism == _MICRO, losses))
    if settings.get("checkpoints") or settings.get("checkpoint_initiates"):
        losses.count(Fate.DROPPED, "forward passes that are repeated in the backward pass (checkpoints)", str(path))
    if settings.get("pp", 1) > 1:
        losses.count(Fate.DROPPED, "transfers between pipeline stages: the layers do not say when", str(path))
    return workload


def _settings(line: bytes, where: str, losses: Losses) -> dict[str, int]:
    """The first line after the parallelism: names and numbers."""
    words, settings = iter(line.decode("utf-8", "replace").split()[1:]), dict[str, int]()
    for word in words:
        name, value = word.removesuffix(":"), next(words, "")
        if not _NAME.fullmatch(word) or not _NUMBER.fullmatch(value):
            raise TraceError(
                f"has {f'{word} {value}'[:60]!r}, which is no name of a setting and its number", path=where
            )
        if name in settings:
            raise TraceError(f"has the setting {name} twice", path=where)
        settings[name] = _setting(value, where)
        layers = [next(words, "") for _ in range(min(settings[name], _MOST_LAYERS))] if name in _OF_LAYERS else []
        if not all(map(_NUMBER.fullmatch, layers)):
            raise TraceError(f"does not name the {settings[name]} layers of {name}", path=where)
        if name not in _KNOWN:
            losses.count(Fate.DROPPED, f"the setting {name[:40]}, which is not known", where)
    return settings


def _setting(text: str, where: str) -> int:
    try:
        return int(float(text))
    except OverflowError as error:
        raise TraceError(f"the setting {text[:20]}… is too large", path=where) from error


def _layer(line: bytes, where: str, is_micro: bool, losses: Losses) -> _Layer:
    words = line.decode("utf-8", "replace").split()
    if len(words) != _FIELDS:
        raise TraceError(f"has {len(words)} fields, a layer has {_FIELDS}: the line is damaged", path=where)
    forward, backward, weights = (
        _part(words[at : at + 3], where, outer, losses) for at, outer in ((2, "TP"), (5, "TP"), (8, "DP"))
    )
    if _whole(words[11], "update time", LONGEST_TRACE_NS, where) > PLACEHOLDER_NS:
        losses.count(Fate.DROPPED, "times of weight updates, which follow the collective of a layer", where)
    if is_micro:
        idle = _LayerPart(0, None, 0, "")
        forward, backward, weights = idle, idle, replace(weights, compute_ns=0)
    return _Layer(words[0], where, forward, backward, weights)


def _part(words: Sequence[str], where: str, outer: str, losses: Losses) -> _LayerPart:
    compute_ns = _whole(words[0], "compute time", LONGEST_TRACE_NS, where)
    size = _whole(words[2], "size", MAX_SIZE_BYTES, where)
    name, _, suffix = words[1].partition("_")
    if words[1] == "NONE":
        return _LayerPart(compute_ns, None, 0, "")
    if name not in _KINDS or suffix not in ("", "EP", "DP_EP"):
        problem = f"{words[1][:40]!r} is no collective of AICB; there are NONE, {', '.join(_KINDS)}, with _EP or _DP_EP"
        raise TraceError(problem, path=where)
    if size == 0:
        losses.count(Fate.DROPPED, "collectives without bytes", where)
        return _LayerPart(compute_ns, None, 0, "")
    return _LayerPart(compute_ns, _KINDS[name], size, suffix or outer)


def _whole(word: str, what: str, most: int, where: str) -> int:
    if not (word.isascii() and word.isdigit()) or len(word) > 19 or int(word) > most:
        raise TraceError(f"{what} {word[:40]!r} is not a whole number from 0 to {most}", path=where)
    return int(word)


def _layout(workload: _AicbWorkload, ranks: int | None, losses: Losses) -> _Layout:
    settings, path = workload.settings, of_line(workload.path, 1)
    tensor = settings.get("model_parallel_NPU_group", 1)
    expert = settings.get("ep", settings.get("expert_parallel_npu_group", 1))
    pipeline = settings.get("pp", 1)
    stated = settings.get("all_gpus", 0)
    world = ranks or stated
    if not world:
        raise TraceError("does not give its number of ranks: add --ranks N", path=path)
    if ranks and stated and ranks != stated:
        losses.count(Fate.INFERRED, f"ranks as --ranks says: {ranks}, not the {stated} of the file", path)
    if min(tensor, expert, pipeline) < 1 or world < 1 or world > 1 << 20:
        raise TraceError("has a degree of parallelism below 1, or an invalid number of ranks", path=path)
    if world % (tensor * pipeline) or world // (tensor * pipeline) % expert:
        problem = f"{world} ranks cannot be divided by tensor {tensor}, pipeline {pipeline} and expert {expert}"
        raise TraceError(f"{problem} parallelism", path=path)
    return _Layout(world, tensor, expert, pipeline)


class _AicbBuilder(NodeList):
    """Builds the nodes of a rank; `_last`: what the next one waits for."""

    def __init__(self, workload: _AicbWorkload, layout: _Layout, rank: int) -> None:
        super().__init__()
        self._workload, self._layout, self._rank = workload, layout, rank
        self._last: tuple[int, ...] = ()
        self._members = {name: layout.members(name, rank) for name in ("TP", "DP", "EP", "DP_EP")}

    def rank(self) -> ImportedRank:
        layers = self._workload.layers
        for layer in layers:
            self._compute(layer, "forward", layer.forward)
            self._collective(layer, "forward", layer.forward)
        last_of_group: dict[str, int] = {}
        is_data = self._workload.parallelism == _DATA
        for layer in layers if self._workload.parallelism == _MICRO else reversed(layers):
            if not is_data:
                self._compute(layer, "backward", layer.backward)
                self._collective(layer, "backward", layer.backward)
            self._compute(layer, "weights", layer.weights)
            self._beside(layer, last_of_group)
            if is_data and layer is not layers[0]:
                self._compute(layer, "backward", layer.backward)
                self._collective(layer, "backward", layer.backward)
        files, world_size = [str(self._workload.path)], self._layout.ranks
        return ImportedRank(self._rank, files, "workload", world_size, {}, self.nodes, self.losses)

    def _compute(self, layer: _Layer, what: str, part: _LayerPart) -> None:
        if part.compute_ns > PLACEHOLDER_NS:
            self._last = (self.add(f"{layer.name} {what}", NodeResource.DEVICE, self._last, part.compute_ns),)
            self.losses.count(Fate.MAPPED, "compute times", layer.where)
        elif part.compute_ns:
            self.losses.count(Fate.MERGED, "compute times of 1 ns: AICB knows none", layer.where)

    def _collective(self, layer: _Layer, what: str, part: _LayerPart) -> None:
        operation = self._operation(layer, what, part)
        if operation is not None:
            self._last = (self.issue(operation, self._last),)

    def _beside(self, layer: _Layer, last_of_group: dict[str, int]) -> None:
        """A collective of weight gradients: what follows does not wait for it, except the next one of its group."""
        operation = self._operation(layer, "weights", layer.weights)
        if operation is not None:
            group = layer.weights.group
            before = (last_of_group[group],) if group in last_of_group else ()
            deps = tuple(sorted({*self._last, *before}))
            last_of_group[group] = self.issue(operation, deps)

    def _operation(self, layer: _Layer, what: str, part: _LayerPart) -> RecordedOperation | None:
        if part.kind is None:
            return None
        members = self._members[part.group]
        if len(members) == 1:
            self.losses.count(Fate.DROPPED, f"{part.kind.label} of a group of one rank", layer.where)
            return None
        is_whole = part.kind is CommKind.ALL_GATHER and self._workload.parallelism != _DATA
        size, rest = divmod(part.size_bytes, len(members)) if is_whole else (part.size_bytes, 0)
        if rest:
            self.losses.count(Fate.INFERRED, "all_gather not divisible by its ranks: shards rounded up", layer.where)
        if part.kind is CommKind.BROADCAST:
            self.losses.guess_root(part.kind, layer.where)
        self.losses.count(Fate.MAPPED, part.kind.label, layer.where)
        is_world = len(members) == self._layout.ranks
        return RecordedOperation(
            where=layer.where,
            name=f"{layer.name} {what} {part.kind.label}",
            kind=part.kind,
            size_bytes=size + (rest > 0),
            group=part.group,
            ranks=() if is_world else members,
            group_size=len(members),
        )


AICB = Importer(NAME, "workloads of AICB for SimAI", is_aicb, read_aicb)
