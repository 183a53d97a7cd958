"""A run as a value, by every way in: options, a file, a stored run, Python."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.command import EXAMPLE, ROOT, answer, charkha, here, refused, succeed

KEYS = ["iteration", "rank", "node_id"]
SMALL = ("--iterations", 1, "--warmup", 0, "--compute", "skip", "--scale-bytes", "1/256", "--no-report")
OPTIONS = (EXAMPLE, *SMALL, "--qps", 2, "--seed", 7, "--algorithm", "all_reduce=ring")


def manifest(folder: Path) -> dict[str, dict[str, object]]:
    return json.loads((folder / "manifest.json").read_text())


def keys(folder: Path) -> object:
    return pq.read_table(folder / "samples.parquet", columns=KEYS).sort_by([(key, "ascending") for key in KEYS])


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that options describe."""
    folder = tmp_path_factory.mktemp("played") / "a"
    succeed("run", *OPTIONS, "--out", folder, cwd=folder.parent)
    return folder


def test_a_printed_run_spec_plays_as_the_options_did(played: Path, tmp_path: Path) -> None:
    printed = charkha("run", *OPTIONS, "--print-spec", cwd=tmp_path)
    (tmp_path / "run.yaml").write_text(printed.stdout)
    succeed("run", "-f", "run.yaml", "--out", "b", cwd=tmp_path)
    first, second = manifest(played), manifest(tmp_path / "b")
    assert first["parameters"] == second["parameters"]
    assert first["settings"] == second["settings"]
    assert first["spec"] == second["spec"]
    assert keys(played) == keys(tmp_path / "b")


def test_every_setting_of_a_run_has_its_source(played: Path) -> None:
    sources = {one["name"]: one["source"] for one in manifest(played)["settings"]}  # type: ignore[index]
    assert {sources[name] for name in ("iterations", "roce.qps", "compute", "scale_bytes", "seed")} == {"asked"}
    assert {sources[name] for name in ("transport", "credits", "roce.path_mtu")} == {"default"}
    assert sources["roce.timeout_ns"] == "derived"


@pytest.mark.parametrize(
    "command", [("run", EXAMPLE, *SMALL), ("bench", "all_reduce", "-n", 2, "-e", "4K", "--iterations", 2)]
)
def test_a_stored_run_is_played_again_with_equal_settings(command: tuple[object, ...], tmp_path: Path) -> None:
    succeed(*command, "--out", "a", cwd=tmp_path)
    succeed("run", "--again", "a", "--out", "elsewhere/b", cwd=tmp_path)
    first, second = manifest(tmp_path / "a"), manifest(tmp_path / "elsewhere" / "b")
    assert first["parameters"] == second["parameters"]
    assert first["trace"]["digest"] == second["trace"]["digest"]
    assert next(one["source"] for one in first["settings"] if one["name"] == "seed") == "default"  # type: ignore[index]
    assert keys(tmp_path / "a") == keys(tmp_path / "elsewhere" / "b")


def test_a_run_is_not_repeated_on_a_trace_that_has_changed(tmp_path: Path) -> None:
    answer("trace", "generate", "collective", "all_reduce", "-n", 2, "-b", "4K", "--out", "t", cwd=tmp_path)
    succeed("run", "t", "--iterations", 1, "--out", "a", cwd=tmp_path)
    here("trace", "generate", "collective", "all_reduce", "-n", 2, "-b", "8K", "--out", "t", "--force", cwd=tmp_path)
    problem = refused("run", "--again", tmp_path / "a", "--out", tmp_path / "b")
    assert "the trace has changed since" in problem
    assert not (tmp_path / "b").exists()


def test_the_example_of_the_python_api_runs_as_it_stands(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    (tmp_path / "lab").symlink_to(ROOT / "lab")
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^all_reduce +1048576 B +[\d.]+ ms$", done.stdout, re.MULTILINE), done.stdout
    assert "Traceback" not in done.stderr


def test_the_run_specs_in_the_docs_are_run_specs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "experiment.md").read_text(encoding="utf-8")
    documents = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert documents
    for number, text in enumerate(documents):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        succeed("run", "-f", path, "--print-spec", cwd=tmp_path)
