"""`charkha runs` as a user meets it, in this process."""

import json
from pathlib import Path

import pytest

from emulator.cli.main import main
from emulator.results.run_folder.manifest import TraceFacts
from tests.support.repeated import write_runs
from tests.support.runs import collective, pair, ranks, write_run


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of one firmware, one of another, below runs/."""
    monkeypatch.chdir(tmp_path)
    write_runs(tmp_path / "runs" / "a", runs=2, seed=1, dut={"firmware": "1.0"})
    write_runs(tmp_path / "runs" / "b", runs=1, seed=2, turn=300, dut={"firmware": "1.1"})
    return tmp_path / "runs"


def shown(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    assert main(["runs", *map(str, arguments)]) == code
    return capsys.readouterr().out


def test_the_newest_run_is_the_first_line(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys).splitlines()
    assert lines[0].split() == ["run", "began", "profile", "trace", "ranks", "transport", "iterations", "status"]
    assert [line.split()[0] for line in lines[2:]] == ["b/01", "a/02", "a/01"]
    assert lines[2].split() == ["b/01", "2026-01-02", "05:00", "1.1", "two", "2", "–", "12", "complete"]  # noqa: RUF001
    assert shown(capsys, "list", store) == "\n".join(lines) + "\n"


def test_filters_and_json(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(shown(capsys, "list", "--firmware", "1.0", "--until", "2026-01-02T00:05+00:00", "--json"))
    assert [(run["folder"], run["firmware"], run["status"]) for run in found] == [("runs/a/01", "1.0", "complete")]
    assert shown(capsys, "list", "--since", "1h") == "no such run below runs\n"


def test_a_name_cannot_steer_the_terminal(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "b").rename(store / "b\x1b[2J\nb")
    out = shown(capsys, "list", store)
    assert "\x1b" not in out
    assert len(out.splitlines()) == 5
    assert r"b\x1b[2J\nb/01" in out
    assert r"would be removed: " + f"{store}" + r"/b\x1b[2J\nb/01" in shown(
        capsys, "prune", "--root", store, "--firmware", "1.1"
    )


def test_a_long_name_leaves_a_table_readable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = TraceFacts(path="t" * 200, digest="00" * 32, ranks=2, nodes=4, communication_nodes=2)
    write_runs(tmp_path / "runs", runs=1, seed=1, trace=trace, dut={"firmware": "1" * 200 + "\n.2"})
    _, _, line, *_ = shown(capsys, "list", tmp_path / "runs").splitlines()
    assert len(line) < 200
    assert "1…1" in line
    assert "t…t" in line
    assert r"1\n.2" in line


def test_a_run_in_depth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = []
    for iteration in range(10):
        posts = [0, 0, 0, 700]
        rows += collective(posts, [1_000 + iteration] * 4, iteration=iteration, name="gradient")
        rows += pair(0, 50, iteration=iteration, instance=1, size_bytes=8, algorithm="")
    run = write_run(tmp_path / "run", rows, iterations={n: ranks((0, 2_000), (0, 2_000 + n)) for n in range(10)})
    out = shown(capsys, "show", run.folder)
    assert "rank 3: last in 10 of 10 collectives (2.5 expected by chance), 700 ns behind" in out
    assert "gradient (all_reduce, group world): rank 3 last in 10 of 10" in out
    (line,) = (line for line in out.splitlines() if line.startswith("all_reduce, 4 ranks"))
    assert line.split("  ")[-1].strip().endswith("%")
    assert "–" in line  # noqa: RUF001 (ten samples carry no p99)
    found = json.loads(shown(capsys, "show", run.folder, "--json"))["statistics"]
    (reduce,) = (one for one in found["classes"] if one["collective"] == "all_reduce")
    assert (reduce["samples"], reduce["p50_ns"], reduce["p90_ns"], reduce["p99_ns"]) == (10, 304, 308, None)
    assert reduce["median_interval_ns"]["low"] <= 304 <= reduce["median_interval_ns"]["high"]
    assert found["lateness"][0]["ranks"][0]["rank"] == 3


def test_pruning_lists_first_and_removes_with_yes(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, "prune", "--firmware", "1.0", "--keep", "1")
    assert "would be removed: runs/a/01" in out
    assert "add --yes" in out
    assert (store / "a" / "01").exists()
    (store / "a" / "01" / "notes.txt").write_text("mine")
    assert "kept: runs/a/01: it contains notes.txt" in shown(capsys, "prune", "runs/a/01", "runs/b/01", "--yes")
    assert sorted(path.parent.name + path.name for path in store.glob("*/*")) == ["a01", "a02"]


def test_what_the_uncertainty_of_a_run_is_made_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", collective([0, 0], [100, 100]))
    lines = shown(capsys, "show", run.folder, "--explain").splitlines()
    assert lines[0].split()[:5] == ["of", "figure", "value", "±", "U"]
    assert any("cct_p50" in line and "one iteration" in line for line in lines)
