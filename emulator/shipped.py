"""Files that come with Charkha: topologies, example traces, firmware profiles, suites, pages of the documentation.

A source tree has them in folders of its own, an installed package in share/charkha. They can be named by their name
(`two-hosts-switch`) or by their path in the source tree (`topologies/two-hosts-switch.yaml`) from any folder. Suites
are data of the package, and have names alone.
"""

from __future__ import annotations

import glob
import os
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE_TREE = Path(__file__).resolve().parents[1]
INSTALLED = Path(sysconfig.get_path("data")) / "share" / "charkha"


@dataclass(frozen=True, slots=True)
class Shipped:
    """Files of one kind.

    Attributes:
        folder: in the source tree; in an installed package its last part.
        suffix: of the files; "": each is a folder.
        installed, source_tree: where they are.
    """

    folder: str
    suffix: str
    installed: Path = INSTALLED
    source_tree: Path = SOURCE_TREE

    @property
    def paths(self) -> Mapping[str, Path]:
        """By name, in alphabetical order."""
        roots = [self.installed / Path(self.folder).name]
        if (self.source_tree / "pyproject.toml").is_file():  # else it is the folder of all installed packages
            roots.append(self.source_tree / self.folder)
        found = {
            path.name.removesuffix(self.suffix): path
            for root in roots
            for path in root.glob(f"*{self.suffix}")
            if path.is_dir() is not bool(self.suffix)
        }
        return dict(sorted(found.items()))

    def find(self, given: str | Path, *, beside: Path = Path()) -> Path:
        """The file that is meant: one that exists, else one of these by its name or its path in the source tree.

        Args:
            given: as the user wrote it.
            beside: folder that a relative path starts from.

        Returns:
            The path as given if there is no such file at all: its reader reports that.
        """
        path = beside / given
        name = os.fspath(given).removeprefix(f"{self.folder}/").removesuffix("/").removesuffix(self.suffix)
        return path if self._exists(path) else self.paths.get(name, path)

    def _exists(self, path: Path) -> bool:
        try:
            is_prefix = not self.suffix and any(path.parent.glob(f"{glob.escape(path.name)}.*"))
            return path.exists() or is_prefix
        except (OSError, ValueError):
            return True


TOPOLOGIES = Shipped("topologies", ".yaml")
TRACES = Shipped("lab/examples", "")
PROFILES = Shipped("lab/profiles", ".yaml")
PAGES = Shipped("docs", ".md")


def shipped_suites() -> Mapping[str, Path]:
    """The suites that come with Charkha, by name."""
    folder = Path(__file__).parent / "annexes" / "series" / "suites"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def first_line(path: Path) -> str:
    """What a YAML file or a page says about itself in its first line; "" for all else."""
    if path.is_dir():
        return ""
    with path.open(encoding="utf-8") as file:
        line = file.readline().strip()
    return line.lstrip("# ") if line.startswith("#") else ""
