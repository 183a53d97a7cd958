"""The script of the example traces makes exactly these traces."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "lab" / "examples"


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.parent != folder}


def test_the_script_reproduces_the_examples_byte_for_byte(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = EXAMPLES / "generate.sh"
    subprocess.run([script, tmp_path], env={**os.environ, "PATH": path}, check=True, capture_output=True, timeout=60)
    made = _contents(tmp_path)
    assert made == _contents(EXAMPLES)
    assert len(made) == 9
    assert sum(map(len, made.values())) < 150_000
