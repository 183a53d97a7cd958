"""Whatever dies, the run ends soon, says why, leaves no process, and keeps what was measured."""

import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.results.run_folder.manifest import ABORTED, INTERRUPTED, PARTIAL_MANIFEST
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.store import stored_run
from tests.support.command import EXAMPLE, Command, Finished, arguments_of, started, stolen_s, wait_for

NOTICED_S = 9.0
"""Two seconds are promised to a machine with a core to spare. What nobody notices lasts longer: ten of silence."""
ENDLESS = ("--compute", "skip", "--scale-bytes", "1/64", "--iterations", "100000", "--agents", "2", "--out", "run")


@pytest.fixture
def playing(tmp_path: Path) -> Iterator[Command]:
    """A run in mid-play that would take hours, with samples of several iterations."""
    with started("run", EXAMPLE, *ENDLESS, cwd=tmp_path) as command:
        wait_for(lambda: _has_samples(tmp_path / "run"))
        yield command


def _has_samples(folder: Path) -> bool | None:
    """The warm-up and an iteration are recorded of all eight ranks."""
    if not (folder / PARTIAL_MANIFEST).exists():
        return None
    return read_run(folder).table(RunTable.ITERATIONS).num_rows >= 16 or None


def _ends_after(command: Command, pid: int, number: signal.Signals) -> Finished:
    began, stolen = time.monotonic(), stolen_s()
    os.kill(pid, number)
    finished = command.finish()
    took_s = time.monotonic() - began
    print(f"ended {took_s:.2f} s after {number.name}")
    assert took_s < NOTICED_S + stolen_s() - stolen
    return finished


def _measured(folder: Path, *, status: str) -> Run:
    run = read_run(folder)
    assert run.manifest.status == status
    assert run.table(RunTable.SAMPLES).num_rows >= 880
    assert run.table(RunTable.ITERATIONS).num_rows >= 16
    return run


def _senders(run: Run) -> set[int]:
    """Ranks whose flows were counted."""
    flows = run.table(RunTable.FLOWS)
    assert all(sent > 0 for sent in flows["packets"].to_pylist())
    return set(flows["src"].to_pylist())


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_agent_fails_the_run_by_name(playing: Command, tmp_path: Path, victim: int) -> None:
    agents = playing.agents(2)
    assert b"-" in arguments_of(agents[victim]), "it loads while the command does, which knows no target yet"
    finished = _ends_after(playing, agents[victim], signal.SIGKILL)
    assert finished.code == 1
    ranks = f"{4 * victim}-{4 * victim + 3}"
    assert f"agent agent-{victim} is lost (killed by SIGKILL); its ranks: {ranks}" in finished.stderr
    assert finished.stdout == ""
    run = _measured(tmp_path / "run", status=ABORTED)
    assert f"agent-{victim}" in (run.manifest.reason or "")
    assert _senders(run) == set(range(8)) - set(range(4 * victim, 4 * victim + 4)), "what a lost agent sent is unknown"


def test_a_killed_controller_ends_its_agents(playing: Command, tmp_path: Path) -> None:
    agents = playing.agents(2)
    began, stolen = time.monotonic(), stolen_s()
    playing.process.kill()
    playing.process.wait()
    wait_for(lambda: not playing.left() or None)
    took_s = time.monotonic() - began
    print(f"{len(agents)} agents ended {took_s:.2f} s after the controller")
    assert took_s < NOTICED_S + stolen_s() - stolen
    assert stored_run(tmp_path / "run").status == INTERRUPTED
    run = _measured(tmp_path / "run", status=INTERRUPTED)
    assert not run.closed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_and_shows_what_it_measured(
    playing: Command, tmp_path: Path, number: signal.Signals
) -> None:
    finished = _ends_after(playing, playing.process.pid, number)
    assert finished.code == 130
    assert "aborted: interrupted by the user" in finished.stderr
    assert "all_reduce" in finished.stdout
    assert "aborted" in finished.stdout
    run = _measured(tmp_path / "run", status=ABORTED)
    assert run.manifest.trials.included >= 1
    assert _senders(run) == set(range(8))
    assert run.manifest.trials.included + len(run.manifest.trials.excluded) + 1 == run.manifest.trials.attempted


def test_results_that_cannot_be_written_fail_the_run(tmp_path: Path) -> None:
    """No file may become longer than 64 KiB: for the command that is a full disk."""
    with started("run", EXAMPLE, *ENDLESS, cwd=tmp_path) as command:
        wait_for(lambda: _has_samples(tmp_path / "run"))
        resource.prlimit(command.process.pid, resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
        finished = command.finish()
    assert finished.code == 3
    assert "cannot write results (File too large)" in finished.stderr.splitlines()[-1]
    _measured(tmp_path / "run", status=INTERRUPTED)


def test_when_nothing_moves_for_too_long_the_run_says_what_it_waits_for(tmp_path: Path) -> None:
    with started("run", EXAMPLE, *ENDLESS, "--timeout", 3, "--qp-timeout", "nccl", cwd=tmp_path) as command:
        wait_for(lambda: _has_samples(tmp_path / "run"))
        finished = _ends_after(command, command.agents(2)[1], signal.SIGSTOP)
    assert finished.code == 1
    assert "nothing happened for 3 s while waiting for rank " in finished.stderr
    assert _senders(_measured(tmp_path / "run", status=ABORTED)) == set(range(4))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("patience", "says"),
    [
        # On a busy machine the seven retries can take longer than the silence that the controller bears.
        ((), r"transfers between ranks [0-3] and [4-7] failed: no answer after 7 retries|agent-1 is lost .*ranks: 4-7"),
        (("--qp-timeout", "nccl"), r"agent agent-1 is lost \(it has sent nothing for 10 s\); its ranks: 4-7"),
    ],
    ids=["its peers give up", "peers are patient"],
)
def test_an_agent_that_hangs_ends_the_run(tmp_path: Path, patience: tuple[str, ...], says: str) -> None:
    with started("run", EXAMPLE, *ENDLESS, *patience, cwd=tmp_path) as command:
        wait_for(lambda: _has_samples(tmp_path / "run"))
        os.kill(command.agents(2)[1], signal.SIGSTOP)
        began = time.monotonic()
        finished = command.finish()
    print(f"ended {time.monotonic() - began:.2f} s after SIGSTOP")
    assert finished.code == 1
    assert re.search(says, finished.stderr), finished.stderr
    _measured(tmp_path / "run", status=ABORTED)


def test_an_agent_that_runs_out_of_descriptors_in_mid_run_says_so(tmp_path: Path) -> None:
    """It needs one for what it reports in the end."""
    words = [*ENDLESS, "--iterations", 12]
    with started("run", EXAMPLE, *words, cwd=tmp_path) as command:
        wait_for(lambda: _has_samples(tmp_path / "run"))
        resource.prlimit(command.agents(2)[1], resource.RLIMIT_NOFILE, (5, 5))
        finished = command.finish()
    assert finished.code == 1
    assert "agent agent-1: too many open files (the limit is 5): raise the limit with `ulimit -n`" in finished.stderr


def test_a_name_is_shown_when_no_file_can_be_opened() -> None:
    limited = (
        "import resource; from emulator.visible import visible; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))"
    )
    words = [sys.executable, "-P", "-c", rf"{limited}; print(visible('a\n'))"]
    assert subprocess.run(words, capture_output=True, text=True, check=False).stdout == "a\\n\n"
