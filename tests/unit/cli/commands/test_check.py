"""`charkha trace check` as a user meets it, in this process."""

import json
from pathlib import Path

import pytest

from emulator.cli.main import main
from tests.support.command import EXAMPLE, refused
from tests.support.trace_files import attribute, collective, compute, write


def test_the_example_can_be_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "check", str(EXAMPLE)]) == 0
    shown = capsys.readouterr().out
    assert "can finish" in shown
    assert main(["trace", "check", str(EXAMPLE), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["ranks"] == 8
    assert f"{facts['nodes']:,}" in shown


def test_payload_is_scaled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(2):
        write(tmp_path / f"t.{rank}.et", [collective(1)])

    def payload(*options: str) -> int:
        assert main(["trace", "check", str(tmp_path), "--json", *options]) == 0
        (operation,) = json.loads(capsys.readouterr().out)["operations"]
        return operation["payload_bytes"]

    plain = payload()
    assert payload("--scale-bytes", "1/2") == plain // 2
    assert payload("--element-bytes", "4") == 4 * plain


def test_missing_dependencies_are_dropped_only_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "t.0.et", [compute(1), compute(2, data_deps=[1, 7])])
    assert "node 2" in refused("trace", "check", tmp_path, "--ranks", 1)
    assert main(["trace", "check", str(tmp_path), "--ranks", "1", "--lenient", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dropped"] == 1


def test_a_rank_of_a_larger_job_is_not_a_job_of_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "t.2.et", [compute(1), collective(2, attribute("pg_name", string_val="g"))])
    (tmp_path / "comm_group.json").write_text('{"g": [0, 2]}')
    said = refused("trace", "check", tmp_path / "t.2.et", "--ranks", 1)
    assert "group g lists rank 2, which is absent" in said
    for path in (tmp_path / "t.2.et", tmp_path, tmp_path / "t"):
        assert main(["trace", "check", str(path), "--ranks", "4"]) == 0
        shown = capsys.readouterr().out
        assert "1 of 4 ranks: not playable; record all ranks" in shown
        assert "g (ranks 0, 2)" in shown
    assert "--ranks N says how many" in refused("trace", "view", tmp_path, "--rank", 2, "--ranks", 2, "--json")
    assert "has no rank 1; there are 2" in refused("trace", "view", tmp_path, "--rank", 1, "--json")
    assert "is missing" in refused("plan", tmp_path, "--ranks", 4)
