"""An anonymous copy on disk."""

import json
from pathlib import Path

import pytest

from emulator.cli.main import main


def test_the_sizes_of_files_are_scaled_as_all_payloads_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, copy = str(tmp_path / "source"), str(tmp_path / "copy")
    words = ["--model", "1000000", "--data", "2", "--out", source]
    assert main(["trace", "generate", "checkpoint", *words]) == 0
    assert main(["trace", "anonymize", source, copy, "--scale-bytes", "1/4"]) == 0
    capsys.readouterr()
    assert main(["trace", "diff", source, copy, "--json"]) == 0
    assert "storage" in json.loads(capsys.readouterr().out)["differ"]
