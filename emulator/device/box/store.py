"""The boxes of this machine: a folder for each under /run/charkha/boxes, written before a port is touched."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from emulator.device.box.model import Box
from emulator.errors import HostError, InputError, PlanError

BOXES = Path("/run/charkha/boxes")
_FILE = "box.json"


class BoxStore:
    """The folders of all boxes.

    Args:
        root: where they are.
    """

    def __init__(self, root: Path = BOXES) -> None:
        self._root = root

    def folder(self, box_id: str) -> Path:
        """The folder of a box, which need not exist."""
        return self._root / box_id

    def claim(self, box: Box) -> None:
        """Make the folder of a new box and write it.

        Raises:
            PlanError: there is one of that id.
            HostError: the folder cannot be made.
        """
        folder = self.folder(box.box_id)
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
        except FileExistsError:
            advice = f"`charkha box down {box.box_id}`, or a different name with --id"
            raise PlanError(f"there is a box {box.box_id} already: {advice}") from None
        except OSError as error:
            raise HostError(f"{folder} cannot be created ({error.strerror})") from error
        self.write(box)

    def write(self, box: Box) -> None:
        """Write a box so that a reader sees the old state or the new one."""
        target = self.folder(box.box_id) / _FILE
        part = target.with_suffix(".part")
        part.write_bytes(msgspec.json.format(msgspec.json.encode(box), indent=1) + b"\n")
        part.replace(target)

    def ids(self) -> list[str]:
        """The ids of all boxes, sorted."""
        return sorted(one.name for one in self._root.iterdir() if one.is_dir()) if self._root.is_dir() else []

    def get(self, box_id: str | None) -> Box:
        """A box.

        Args:
            box_id: None: the only one there is.

        Raises:
            InputError: no such box, or it must be named, or its state cannot be read.
        """
        ids = self.ids()
        if not ids or (box_id is not None and box_id not in ids):
            which = (
                "no box is up" if box_id is None else f"there is no box {box_id!r} (boxes: {', '.join(ids) or 'none'})"
            )
            raise InputError(f"{which}; `charkha box up PORT PORT` brings one up")
        if box_id is None and len(ids) > 1:
            raise InputError(f"there are several boxes; choose one: {', '.join(ids)}")
        path = self.folder(box_id or ids[0]) / _FILE
        try:
            return msgspec.json.decode(path.read_bytes(), type=Box)
        except (OSError, ValueError) as error:
            advice = f"`ip netns` lists the namespaces that exist; then remove {path.parent}"
            raise InputError(f"{path}: not the state of a box ({error}); {advice}") from error

    def forget(self, box_id: str) -> None:
        """Remove the folder of a box, and empty folders above it."""
        shutil.rmtree(self.folder(box_id), ignore_errors=True)
        for folder in (self._root, self._root.parent):
            try:
                folder.rmdir()
            except OSError:
                return
