"""The texts of a trace file, which playing it does not need: names of nodes, and their other attributes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from emulator.trace.files.communications import MEANT
from emulator.trace.files.records import read_nodes


@dataclass(frozen=True, slots=True)
class NodeTexts:
    """Texts of a rank's nodes.

    Attributes:
        names: of the nodes, in file order.
        idle: names of attributes that no player reads → number of nodes with them.
    """

    names: list[str]
    idle: Counter[str]


def read_texts(path: Path) -> NodeTexts:
    """Read them from a file of any format.

    Raises:
        TraceError: the file cannot be read.
    """
    found = NodeTexts([], Counter())
    for node in read_nodes(path):
        found.names.append(node.name)
        found.idle.update(attribute.name for attribute in node.attr if attribute.name not in MEANT)
    return found
