"""The labs of this host: a folder for each under /run/charkha/labs, written before anything of the lab is made.

So a lab can be taken down completely, whatever happened to the command that brought it up.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from emulator.device.lab.between import DEFAULT_ID, PortPair
from emulator.device.lab.model import Design
from emulator.errors import HostError, InputError
from emulator.host.files import read_bounded, write_json

LABS = Path("/run/charkha/labs")
BOXES = "boxes"
"""Folder beside it, in which older versions keep labs between two real ports."""
RAISING, UP, REMOVING = "raising", "up", "removing"
SERVICE = "CHARKHA_SERVICE"
"""Environment variable that the runs of a service have: its folder."""
_FILE, _BOX_FILE = "state.json", "box.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: its id, and when it began (clock ticks since boot), because ids are reused."""

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
class Party:
    """Whoever brings labs up and plays in them.

    Attributes:
        uid: user id; of a command under sudo, that of the user who called it.
        service: folder of the service whose runs it plays; None: a user at the command line.
    """

    uid: int = 0
    service: str | None = None

    @classmethod
    def me(cls) -> Party:
        """Who uses this process."""
        return cls(int(_uid_before_sudo() or os.getuid()), os.environ.get(SERVICE))

    def is_same(self, other: Party) -> bool:
        """Whether both are the same user, or the same service whoever started it."""
        return self.service == other.service and (self.service is not None or self.uid == other.uid)

    @property
    def is_root(self) -> bool:
        """A user who is root, not only while sudo runs a command."""
        return self.uid == 0 and self.service is None

    def __str__(self) -> str:
        if self.service is not None:
            return f"the service in {self.service}"
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return f"user {self.uid}"


@dataclass(frozen=True, slots=True)
class LabState:
    """The design of a lab, and the phase it is in.

    Attributes:
        topology: the file, absolute; "" if there is none.
        digest: SHA-256 of the file, in hex; "" if there is none.
        name: of the topology.
        created: ISO 8601 with zone.
        owner: the process that brought it up.
        belongs_to: who may play in it.
        phase: raising, up or removing.
        limited: why this host cannot carry all its rates at once; None if it can.
        versions: of the kernel, of Open vSwitch and of FRR.
        between: two real ports, in place of a topology.
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
    belongs_to: Party = Party()
    between: PortPair | None = None

    @property
    def up_command(self) -> str:
        """The command that brought it up, and mends it."""
        own = "" if self.lab_id == default_id(self.name) else f" --id {self.lab_id}"
        service = self.belongs_to.service
        what = f"--between {' '.join(self.between.names)}" if self.between is not None else self.topology
        return f"charkha lab up {what}{own}" + (f" --service {service}" if service is not None else "")

    @property
    def lab_id(self) -> str:
        """The lab's id."""
        return self.design.lab_id


def default_id(name: str) -> str:
    """The id of the lab of a topology of this name, if the user does not give one."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:32]


class LabStore:
    """The folders of all labs.

    Args:
        root: where they are.
    """

    def __init__(self, root: Path = LABS) -> None:
        self._root, self._boxes = root, root.parent / BOXES

    def folder(self, lab_id: str) -> Path:
        """The folder of a lab, which need not exist."""
        older = self._boxes / lab_id
        return older if older.is_dir() else self._root / lab_id

    def claim(self, lab_id: str) -> Path:
        """Make the folder of a new lab.

        Raises:
            FileExistsError: there is one of that id.
            HostError: the folder cannot be made.
        """
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            self.folder(lab_id).mkdir()
        except FileExistsError:
            raise
        except OSError as error:
            raise HostError(f"{self.folder(lab_id)} cannot be created ({error.strerror})") from error
        return self.folder(lab_id)

    def write(self, state: LabState) -> None:
        """Write a state so that a reader sees the old one or the new one.

        Raises:
            HostError: it cannot be written.
        """
        write_json(self.folder(state.lab_id) / _FILE, {"format": _FORMAT, **msgspec.to_builtins(state)})

    def read(self, lab_id: str) -> LabState | None:
        """The state of a lab; None if nothing of it was made: its folder is missing or has no state yet.

        Raises:
            InputError: the state cannot be read.
        """
        path = self.folder(lab_id) / _FILE
        try:
            document = msgspec.json.decode(read_bounded(path))
            if document["format"] != _FORMAT:
                raise ValueError(f"format {document['format']}, this Charkha reads {_FORMAT}")
            return msgspec.convert(document, LabState)
        except FileNotFoundError:
            return self._read_box(lab_id)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}: not the state of a lab ({error}); `ip netns` lists the namespaces that exist"
            ) from error

    def ids(self) -> list[str]:
        """The ids of all labs, sorted."""
        roots = [root for root in (self._root, self._boxes) if root.is_dir()]
        return sorted({folder.name for root in roots for folder in root.iterdir() if folder.is_dir()})

    def states(self) -> Iterator[LabState]:
        """The states of all labs."""
        for lab_id in self.ids():
            state = self.read(lab_id)
            if state is not None:
                yield state

    def forget(self, lab_id: str) -> None:
        """Remove the folder of a lab, and empty folders above it."""
        shutil.rmtree(self.folder(lab_id), ignore_errors=True)
        for folder in (self._boxes, self._root, self._root.parent):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _read_box(self, lab_id: str) -> LabState | None:
        """A box of an older version as a lab."""
        path = self.folder(lab_id) / _BOX_FILE
        try:
            document = msgspec.json.decode(read_bounded(path))
            pair = msgspec.convert(document, PortPair)
            design, created = pair.design(lab_id), document["created"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            advice = f"`ip netns` lists the namespaces that exist; then remove {path.parent}"
            raise InputError(f"{path}: not the state of a box ({error}); {advice}") from error
        return LabState(design, "", "", DEFAULT_ID, created, Owner(0, 0), phase=UP, between=pair)


def _uid_before_sudo() -> str | None:
    found = os.environ.get("SUDO_UID", "")
    return found if found.isdecimal() and os.geteuid() == 0 else None


def _began(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None
