"""What labs there are: a folder for each under /run/charkha/labs, written before anything of the lab is made.

So whoever takes a lab down knows its parts, whatever became of the command that raised it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emulator.errors import HostError, InputError
from emulator.lab.model import Design, Forward, Hop, LabRoute, Neighbour, Node, Port, Shaping
from emulator.topology.network import End

LABS = Path("/run/charkha/labs")
RAISING, UP, REMOVING = "raising", "up", "removing"
_FILE = "state.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: its id, and when it began (clock ticks since boot), since ids are used again."""

    pid: int
    began: int

    @classmethod
    def me(cls) -> Owner:
        """This process."""
        return cls(os.getpid(), _began(os.getpid()) or 0)

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return _began(self.pid) == self.began


@dataclass(frozen=True, slots=True)
class LabState:
    """A lab as it was wanted, and how far that has come.

    Attributes:
        topology: the file, absolute.
        digest: SHA-256 of the file, in hex.
        name: of the topology.
        created: ISO 8601 with zone.
        owner: who raised it.
        phase: raising, up or removing.
        limited: why this host cannot carry all its rates at once; None if it can.
        versions: of the kernel and of what forwards.
    """

    design: Design
    topology: str
    digest: str
    name: str
    created: str
    owner: Owner
    phase: str = RAISING
    limited: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def lab_id(self) -> str:
        """What the lab is called."""
        return self.design.lab_id


class LabStore:
    """The folders of all labs.

    Args:
        root: where they are.
    """

    def __init__(self, root: Path = LABS) -> None:
        self._root = root

    def folder(self, lab_id: str) -> Path:
        """The folder of a lab, which need not exist."""
        return self._root / lab_id

    def claim(self, lab_id: str) -> Path:
        """Make the folder of a new lab.

        Raises:
            FileExistsError: there is one of that id.
            HostError: it cannot be made.
        """
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            self.folder(lab_id).mkdir()
        except FileExistsError:
            raise
        except OSError as error:
            raise HostError(f"{self.folder(lab_id)} cannot be made ({error.strerror})") from error
        return self.folder(lab_id)

    def write(self, state: LabState) -> None:
        """Write a state so that a reader sees the old one or the new one."""
        target = self.folder(state.lab_id) / _FILE
        part = target.with_suffix(".part")
        document = {"format": _FORMAT, **dataclasses.asdict(state)}
        part.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        part.replace(target)

    def read(self, lab_id: str) -> LabState | None:
        """The state of a lab; None if nothing of it was made: its folder is missing or has no state yet.

        Raises:
            InputError: the state is none of ours.
        """
        path = self.folder(lab_id) / _FILE
        try:
            return _build(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: is not a state of a lab ({error}); `ip netns` shows what is there") from error

    def ids(self) -> list[str]:
        """Of all labs, in order."""
        return sorted(one.name for one in self._root.iterdir() if one.is_dir()) if self._root.is_dir() else []

    def states(self) -> Iterator[LabState]:
        """Of all labs whose state can be read."""
        for lab_id in self.ids():
            state = self.read(lab_id)
            if state is not None:
                yield state

    def forget(self, lab_id: str) -> None:
        """Remove the folder of a lab; empty folders above it go too."""
        shutil.rmtree(self.folder(lab_id), ignore_errors=True)
        for folder in (self._root, self._root.parent):
            try:
                folder.rmdir()
            except OSError:
                return


def _began(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def _build(document: Mapping[str, Any]) -> LabState:
    if document["format"] != _FORMAT:
        raise ValueError(f"format {document['format']}, this Charkha reads {_FORMAT}")
    known = {one.name for one in dataclasses.fields(LabState)}
    entries = {name: value for name, value in document.items() if name in known}
    return LabState(**entries | {"design": _design(document["design"]), "owner": Owner(**document["owner"])})


def _design(document: Mapping[str, Any]) -> Design:
    cables = [(End(*one), End(*other)) for one, other in document["cables"]]
    return Design(**{**document, "nodes": [_node(one) for one in document["nodes"]], "cables": cables})


def _node(document: Mapping[str, Any]) -> Node:
    return Node(
        **{
            **document,
            "ports": [_port(one) for one in document["ports"]],
            "routes": [LabRoute(**{**one, "hops": [Hop(**hop) for hop in one["hops"]]}) for one in document["routes"]],
            "neighbours": [Neighbour(**one) for one in document["neighbours"]],
            "forwards": [Forward(**one) for one in document["forwards"]],
        }
    )


def _port(document: Mapping[str, Any]) -> Port:
    shaping = document["shaping"]
    return Port(**{**document, "peer": End(*document["peer"]), "shaping": Shaping(**shaping) if shaping else None})
