import json
from pathlib import Path

import pytest

from emulator.cli.main import main
from tests.support.command import EXAMPLE, refused


def test_a_page_and_a_time_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("perfetto")
    monkeypatch.chdir(tmp_path)
    assert main(["trace", "view", str(EXAMPLE), "--perfetto", "line"]) == 0
    assert capsys.readouterr().out == "transformer-8r.html\nline\n"
    html = (tmp_path / "transformer-8r.html").read_text()
    assert '<meta name="generator" content="charkha">' in html
    assert (tmp_path / "line").stat().st_size > 10_000
    assert main(["trace", "view", str(EXAMPLE)]) == 0  # its own page is replaced


def test_the_window_is_around_the_node_that_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["trace", "view", str(EXAMPLE), "--out", str(tmp_path / "x.html"), "--graph", "3:7", "--depth", "1"]) == 0
    )
    assert "Rank 3, around node 7" in (tmp_path / "x.html").read_text()
    capsys.readouterr()
    assert "has no node 4711" in refused("trace", "view", EXAMPLE, "--json", "--graph", "3:4711")
    assert "--graph 8:1: the trace has ranks 0 to 7" in refused("trace", "view", EXAMPLE, "--json", "--graph", "8:1")
    assert "'3': write RANK:NODE, as 0:57" in refused("trace", "view", EXAMPLE, "--graph", "3")


def test_the_rate_sets_what_is_not_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    lengths = []
    for rate in ("10Gbit", "100Gbit"):
        assert main(["trace", "view", str(EXAMPLE), "--json", "--rate", rate]) == 0
        found = json.loads(capsys.readouterr().out)
        lengths.append(found["critical_path_ns"])
        assert f"{rate.removesuffix('Gbit')} Gbit/s" in found["communication_times"]
    compute = found["critical_path_compute_ns"]
    assert lengths[0] > lengths[1] > compute
    assert found["time_line_ns"] >= lengths[1]


def test_other_files_are_not_replaced(tmp_path: Path) -> None:
    other = tmp_path / "notes.html"
    other.write_text("<html>mine")
    assert "Charkha did not write it" in refused("trace", "view", EXAMPLE, "--out", other)
