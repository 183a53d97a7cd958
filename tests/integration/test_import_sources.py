"""Every sample of every format passes `charkha trace check`, and plays; an algorithm of MSCCL plays from its file."""

import json
from pathlib import Path

import pytest

from emulator.cli.main import main
from tests.support.command import succeed
from tests.support.import_sources import WRITERS, write_aicb_micro, write_inspector, write_sample
from tests.support.msccl_files import all_pairs_all_reduce, ring_all_reduce


@pytest.mark.parametrize("sample", list(WRITERS))
def test_a_sample_passes_the_check(sample: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_sample(sample, tmp_path / "source")
    assert main(["trace", "check", str(tmp_path / "source"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ranks"] in (4, 8)
    assert main(["trace", "convert", str(tmp_path / "source"), str(tmp_path / "made"), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)["import"]
    assert made["format"] == WRITERS[sample][0]
    assert made["mapped"]


@pytest.mark.slow
@pytest.mark.parametrize("sample", list(WRITERS))
def test_a_sample_plays(sample: str, tmp_path: Path) -> None:
    write_sample(sample, tmp_path / "source")
    played = succeed("run", "source", "--iterations", 1, "--out", "run", "--json", cwd=tmp_path)
    assert json.loads(played.stdout)["classes"]


def test_a_run_goes_out_as_records_and_comes_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "source").mkdir()
    write_inspector(tmp_path / "source", verbose=True)
    succeed("run", "source", "--iterations", 1, "--out", "run", cwd=tmp_path)
    out = tmp_path / "run.log"
    assert main(["runs", "export", str(tmp_path / "run"), "--to", "nccl-inspector", "--out", str(out)]) == 0
    capsys.readouterr()
    operations = []
    for source in (tmp_path / "source", out):
        assert main(["trace", "check", str(source), "--json"]) == 0
        summary = json.loads(capsys.readouterr().out)
        operations.append([(row["kind"], row["payload_bytes"]) for row in summary["operations"]])
    assert sorted(operations[0]) == sorted(operations[1])


def test_ranks_are_asked_for_where_the_source_does_not_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_aicb_micro(tmp_path)
    assert main(["trace", "check", str(tmp_path)]) == 2
    assert "micro.txt, line 1: does not give its number of ranks: add --ranks N" in capsys.readouterr().err
    assert main(["trace", "check", str(tmp_path), "--ranks", "4"]) == 0


def test_an_algorithm_plays_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "ring.xml").write_text(all_pairs_all_reduce(4))
    words = ("bench", "all_reduce", "-n", 4, "-b", "64K", "-e", "64K", "--iterations", 1)
    played = succeed(*words, "--algorithm", "all_reduce=ring.xml", "--out", "run", "--json", cwd=tmp_path)
    assert '"algorithm": "msccl:allreduce-by-hand-' in played.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ring_all_reduce(4).replace('"rrc"', '"r"', 1), "ring.xml: rank 0 ends with chunk 3 without rank 0"),
        (ring_all_reduce(3), "--algorithm all_reduce=ring.xml: is for all_reduce of 3 ranks; the workload has none"),
        ("<algo/>", "ring.xml:1: coll '' cannot be played"),
    ],
)
def test_a_wrong_algorithm_is_refused_before_any_traffic(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ring.xml").write_text(text)
    assert main(["bench", "all_reduce", "-n", "4", "-b", "4K", "-e", "4K", "--algorithm", "all_reduce=ring.xml"]) == 2
    error = capsys.readouterr().err
    assert (said in error, error.count("\n")) == (True, 1), error
    assert [path.name for path in tmp_path.iterdir()] == ["ring.xml"]
