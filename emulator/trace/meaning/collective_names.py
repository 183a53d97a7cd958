"""Names of collectives: those that files, tables and the command line use, and the spellings of NCCL and MPI."""

from __future__ import annotations

from collections.abc import Mapping

from emulator.suggestions import did_you_mean
from emulator.trace.meaning.model import CommKind

COLLECTIVES: Mapping[str, CommKind] = {kind.label: kind for kind in CommKind if kind.is_collective}
"""By the name that files and the command line use."""
SEND_RECV = "send_recv"
"""Name of the collective in classes of send-receive pairs."""

_NAMES = (*COLLECTIVES, SEND_RECV)
_SPELLINGS = {name.replace("_", ""): name for name in _NAMES} | {"bcast": "broadcast"}


def parse_collective(text: str) -> CommKind:
    """A collective by any of its names: `all_reduce`, `allreduce`, `all-reduce`, `MPI_Allreduce`, `ncclAllReduce`.

    Raises:
        ValueError: there is no such collective.
    """
    name = parse_class_name(text)
    if name == SEND_RECV:
        raise ValueError(f"{text!r} is not a collective but a pair of ranks; choose from {', '.join(COLLECTIVES)}")
    return COLLECTIVES[name]


def parse_class_name(text: str) -> str:
    """The name that tables use; as `parse_collective`, but it also knows SEND_RECV.

    Raises:
        ValueError: there is no such collective.
    """
    word = text.strip().lower().replace("-", "").replace("_", "")
    name = _SPELLINGS.get(word.removeprefix("nccl").removeprefix("mpi").removesuffix("perf"))
    if name is None:
        advice = did_you_mean(text, _NAMES) or f"; choose from {', '.join(COLLECTIVES)}"
        raise ValueError(f"there is no collective {text!r}{advice}")
    return name
