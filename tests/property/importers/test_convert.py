"""What `convert` writes, `check` accepts; what it refuses, it names as the user did, and leaves no file of.

CHARKHA_CONVERSIONS sets how many damaged inputs of each kind are tried.
"""

import contextlib
import io
import json
import os
import shutil
from pathlib import Path
from random import Random

import pytest

from emulator.cli.main import main
from tests.support.mutant_kinds import KINDS

CONVERSIONS = int(os.environ.get("CHARKHA_CONVERSIONS", "60"))
TRACES = [one for one in KINDS if one.name.startswith(("trace: ", "import: "))]


def tried(*words: object) -> tuple[int, str]:
    """Exit code and stderr of a command, in this process."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = main([*map(str, words)])
    return code, said.getvalue()


@pytest.mark.parametrize("name", [one.name for one in TRACES])
def test_what_is_converted_can_be_played(name: str, tmp_path: Path) -> None:
    kind = next(one for one in TRACES if one.name == name)
    codes = set()
    for number in range(CONVERSIONS):
        chance, folder, made = Random(f"{name} {number}"), tmp_path / "input", tmp_path / "made"
        folder.mkdir()
        given = kind.mutant(folder, chance)
        is_chakra = name.startswith("trace: ") and given.is_dir()
        ranks = ["--ranks", 1] if is_chakra and len(list(given.iterdir())) == 1 else []
        lenient = ["--lenient"] if is_chakra and number % 2 else []
        code, said = tried("trace", "convert", given, made, *ranks, *lenient)
        codes.add(code)
        report = made / "import.json"
        if code == 0 and not (report.is_file() and json.loads(report.read_text())["missing_ranks"]):
            assert tried("trace", "check", made, *ranks)[0] == 0, number
        else:
            assert code == 0 or not made.exists(), number
        assert "charkha-tmp" not in said, number
        shutil.rmtree(folder)
        shutil.rmtree(made, ignore_errors=True)
    assert codes == {0, 2}
