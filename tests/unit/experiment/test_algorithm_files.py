"""Algorithms that a run spec names: names stay, files are read and proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import PlanError
from emulator.experiment.algorithm_files import is_file, name_of
from emulator.planner.algorithms import algorithms_for, choose, parse_overrides
from emulator.planner.msccl.loaded import loaded_algorithms
from emulator.trace.model import CommKind
from tests.support.msccl_files import ring_all_reduce


def test_a_name_stays_and_a_file_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "ring.xml"
    path.write_text(ring_all_reduce(3))
    assert name_of("ring") == "ring"
    name = name_of(str(path))
    assert name.startswith("msccl:allreduce-by-hand-")
    assert (is_file("ring"), is_file("a/ring.xml")) == (False, True)
    assert name in algorithms_for(CommKind.ALL_REDUCE)
    assert name not in algorithms_for(CommKind.ALL_GATHER)


def test_other_content_is_another_algorithm(tmp_path: Path) -> None:
    path = tmp_path / "ring.xml"
    path.write_text(ring_all_reduce(3))
    first = name_of(str(path))
    assert name_of(str(path)) == first
    path.write_text(ring_all_reduce(3, channels=2))
    second = name_of(str(path))
    assert first != second
    assert {first, second} <= set(loaded_algorithms())


def test_it_is_chosen_where_it_fits(tmp_path: Path) -> None:
    path = tmp_path / "ring.xml"
    path.write_text(ring_all_reduce(3).replace('minBytes="0" maxBytes="0"', 'minBytes="100" maxBytes="1000"'))
    name = name_of(str(path))
    overrides = parse_overrides([f"all_reduce={name}"])
    chosen = {
        (members, size): choose(CommKind.ALL_REDUCE, members=members, size_bytes=size, overrides=overrides) == name
        for members, size in ((3, 500), (3, 99), (3, 1001), (4, 500))
    }
    assert chosen == {(3, 500): True, (3, 99): False, (3, 1001): False, (4, 500): False}
    with pytest.raises(PlanError, match=r"ring.xml: computes all_reduce, not all_gather"):
        parse_overrides([f"all_gather={name}"])


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"none.xml: cannot be read \(No such file or directory\)"):
        name_of(str(tmp_path / "none.xml"))
    (tmp_path / "bad.xml").write_bytes(b"\xff\xfe")
    with pytest.raises(PlanError, match=r"bad.xml: is not UTF-8 text"):
        name_of(str(tmp_path / "bad.xml"))
