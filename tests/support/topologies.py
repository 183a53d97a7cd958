"""Topologies from text, and where the shipped ones are."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from emulator.errors import TopologyError
from emulator.topology.load import load_topology
from emulator.topology.model import Topology

SHIPPED = Path(__file__).parents[2] / "topologies"


def write_topology(
    folder: Path, text: str, *, name: str = "t.yaml", ranks: int = 2, allow: Iterable[str] = ()
) -> Topology:
    """The topology that a file with this text describes."""
    path = folder / name
    path.write_text(text)
    return load_topology(path, ranks=ranks, allow_networks=allow)


def shipped_topology(name: str, *, ranks: int = 0) -> Topology:
    """One of those in the folder topologies/."""
    return load_topology(SHIPPED / f"{name}.yaml", ranks=ranks)


def topology_error(folder: Path, text: str, *, ranks: int = 2) -> str:
    """The error that a file with this text causes, without the folder's name: `t.yaml:LINE, KEY: PROBLEM`."""
    with pytest.raises(TopologyError) as caught:
        write_topology(folder, text, ranks=ranks)
    assert caught.value.path == folder / "t.yaml"
    return str(caught.value).removeprefix(f"{folder}/")


def cables(topology: Topology) -> list[str]:
    """Its links, by the names of their ends."""
    return [str(link) for link in topology.network.links]


def drawn(tmp_path: Path, text: str, ranks: int) -> Topology:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    return load_topology(path, ranks=ranks)
