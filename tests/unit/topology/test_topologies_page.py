"""docs/topologies.md shows a file that loads, and an error that is the real one."""

from pathlib import Path

import pytest

from emulator.errors import TopologyError
from emulator.topology.load import load_topology

PAGE = (Path(__file__).parents[3] / "docs" / "topologies.md").read_text(encoding="utf-8")


def test_the_file_it_shows_loads(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(PAGE.split("```yaml\n")[1].split("```")[0])
    topology = load_topology(path, ranks=6)
    assert topology.addresses == ("198.18.0.1", "198.18.0.1", "198.18.1.1", "198.18.1.2", "127.1.0.1", "127.1.0.2")


def test_the_error_it_shows_is_the_real_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lab.yaml").write_text("hosts:\n- name: h0\n  address: 198.18.0.1\n  rate: fast\n")
    with pytest.raises(TopologyError) as caught:
        load_topology(Path("lab.yaml"), ranks=1)
    assert f"    {caught.value}\n" in PAGE


def test_the_network_it_describes_loads(tmp_path: Path) -> None:
    text = PAGE.split("bring it up as a lab, describe it:\n")[1].split("\nGive rate and MTU")[0]
    path = tmp_path / "lab.yaml"
    path.write_text("".join(line[4:] if line.startswith("    ") else line for line in text.splitlines(keepends=True)))
    topology = load_topology(path, ranks=3)
    assert [topology.port_of(rank) for rank in range(3)] == [(0, 0), (1, 0), (1, 1)]
    assert [str(port) for port in topology.dut.ports] == ["leaf0:p0", "leaf0:p1", "leaf0:p2"]


def test_it_lists_the_shipped_topologies() -> None:
    shipped = {path.stem for path in (Path(__file__).parents[3] / "topologies").glob("*.yaml")}
    rows = [
        line.split("|")[1] for line in PAGE.split("## Shipped topologies")[1].splitlines() if line.startswith("| ")
    ][1:]
    assert {name.strip() for row in rows for name in row.split(",")} == shipped
