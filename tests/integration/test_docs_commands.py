"""Command lines of the pages that send no traffic run as they are written, where there is what they name."""

import re
import shutil
from pathlib import Path

import pytest

from emulator.cli.main import main
from emulator.exit_codes import DONE, EXPECTATION_FAILED, REGRESSION, TESTER_LIMITED, UNDECIDED
from tests.support.blocks import PAGES, blocks, charkha_words
from tests.support.command import EXAMPLE, ROOT
from tests.support.repeated import write_runs

SENDS_NOTHING = re.compile(r"charkha (plan|trace|suite list|suite show|runs|compare|report|help)\b")
OTHER_CODES = {
    "runs judge": {EXPECTATION_FAILED, TESTER_LIMITED, UNDECIDED},
    "compare": {REGRESSION, UNDECIDED},
}
"""First words → exit codes that are answers, too."""
LINES = [
    pytest.param(line, id=f"{block.name}: {line[:60]}")
    for page in PAGES
    if not page.name.startswith("tutorial-")  # tests/integration/test_demo.py and tests/lab/test_demo.py play them
    for block in blocks(page)
    for line in block.lines
    if SENDS_NOTHING.match(line)
]
WITHOUT = {
    "runs/both": "a session: tests/integration/test_jobs.py",
    "roce.pcap": "a capture: tests/integration/test_audit.py",
    "kineto_0.json.gz": "a recording of PyTorch: tests/integration/test_import.py",
    "trace.0.et": "one rank of many: tests/integration/test_view.py",
    "conversation_trace.jsonl": "requests: tests/integration/test_generate_inference.py",
    "my-job.parquet traces": "a master file: tests/integration/test_import_sources.py",
    "suites/": "a suite that was played: tests/integration/test_suite.py",
    "plan -f run.yaml": "a run spec with flows: tests/integration/test_plan.py",
}
"""Part of a line → what is missing here, and which test plays it."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the pages name: traces, runs, rules."""
    monkeypatch.chdir(tmp_path)
    for name in ("TRACE", "trace", "my-traces", "my-pytorch-traces", "traces/monday", "traces/tuesday"):
        shutil.copytree(EXAMPLE, tmp_path / name)
    for folder in ("topologies", "lab"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    for turn, name in enumerate(("fw-a", "fw-b")):
        for root in ("ab", "nightly"):
            write_runs(Path("runs") / root / name, runs=2, seed=turn, turn=turn, dut={"firmware": name})
    runs = write_runs(Path("lab-runs"), runs=3, seed=9, turn=9, dut={"firmware": "2.1"})
    names = ("RUN", "runs/20261121-101500-transformer-8r", "runs/20260102-030405-transformer-8r")
    for run, name in zip(runs, names, strict=True):
        run.folder.rename(tmp_path / name)
    shutil.copyfile(ROOT / "tests" / "data" / "inputs" / "rules.yaml", tmp_path / "rules.yaml")
    return tmp_path


@pytest.mark.parametrize("line", LINES)
def test_it_runs(line: str, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part, why in WITHOUT.items():
        if part in line:
            pytest.skip(why)
    (words,) = charkha_words(line)
    code = main(words)
    shown = capsys.readouterr()
    answers = {DONE}.union(*(codes for first, codes in OTHER_CODES.items() if " ".join(words).startswith(first)))
    assert code in answers, shown.err


def test_most_lines_run() -> None:
    left_out = [one for one in LINES if any(part in one.values[0] for part in WITHOUT)]
    assert len(LINES) - len(left_out) >= 25
