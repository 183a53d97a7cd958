"""Names of collectives in files, tables and the command line, by NCCL and MPI, and of transfers of key-value caches.

Sends and receives that carry a key-value cache are called `request.12.kv.to.5`, `request.12.kv.from.0`. The names say
which nodes belong to one request. Results of any trace that names them so have times of requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from emulator.suggestions import did_you_mean
from emulator.trace.meaning.model import CommKind

COLLECTIVES: Mapping[str, CommKind] = {kind.label: kind for kind in CommKind if kind.is_collective}
"""By the name that files and the command line use."""
SEND_RECV = "send_recv"
"""Name of the collective in classes of send-receive pairs."""


def class_name(kind: CommKind) -> str:
    """The name of a kind in classes: a send and its receive are one pair."""
    return SEND_RECV if kind is CommKind.SEND else kind.label


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


_NAME = re.compile(r"request\.(\d{1,18})\.kv\.(?:to|from)\.\d+")


def key_value_name(request: int, peer: int, *, is_send: bool) -> str:
    """Name of a send to, or of a receive from, the rank `peer`."""
    return f"request.{request}.kv.{'to' if is_send else 'from'}.{peer}"


def request_of(name: str) -> int | None:
    """Number of the request to which a node belongs; None: it carries no key-value cache."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None
