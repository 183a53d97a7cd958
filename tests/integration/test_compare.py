"""Repeated runs and their comparison from the outside, over loopback."""

import json
import shutil
import signal
from pathlib import Path

from emulator.results.run_folder.reader import read_run
from tests.support.browser import DESKTOP, PHONE, chromium
from tests.support.command import charkha, started, succeed, wait_for
from tests.support.repeated import write_runs

SMALL = ("bench", "all_reduce", "-n", 2, "-b", "1K", "-e", "2K", "--iterations", 3, "--agents", 1)


def test_repeated_runs_are_listed_and_compared(tmp_path: Path) -> None:
    made = succeed(*SMALL, "--repeat", 2, "--out", "group", "--json", cwd=tmp_path)
    assert json.loads(made.stdout)["complete"] == 2
    listed = charkha("runs", "list", ".", "--json", cwd=tmp_path)
    assert {Path(run["folder"]).as_posix() for run in json.loads(listed.stdout)} == {"group/01", "group/02"}
    arguments = ("--gate=strict", "--junit", "result.xml", "--json")
    finished = charkha("compare", "group/01", "group/*2", *arguments, cwd=tmp_path)
    undecided = "charkha: UNDECIDED: the gate decided nothing, no class of 3 has a verdict: play 5 runs of each group"
    assert (finished.code, finished.stderr.strip()) == (7, undecided)
    (pair,) = json.loads(finished.stdout)["pairs"]
    assert {(one["verdict"], one["needs_runs"]) for one in pair["classes"]} == {("inconclusive", 5)}
    assert (tmp_path / "result.xml").read_text().count("<failure") == len(pair["classes"]) == 3


def test_copies_of_a_run_are_refused_within_a_group_and_across_groups(tmp_path: Path) -> None:
    write_runs(tmp_path / "a", runs=2, seed=1)
    write_runs(tmp_path / "c", runs=1, seed=2)
    shutil.copytree(tmp_path / "a" / "01", tmp_path / "b" / "01")
    across = charkha("compare", "a", "b", cwd=tmp_path)
    shutil.copytree(tmp_path / "a" / "01", tmp_path / "a" / "03")
    within = charkha("compare", "a", "c", cwd=tmp_path)
    for done in (across, within):
        assert done.code == 2
        assert "a copy of " in done.stderr
        assert "(run id a-0-1)" in done.stderr


def test_an_interrupt_keeps_the_runs_that_are_complete(tmp_path: Path) -> None:
    with started(*SMALL, "--repeat", 500, "--out", "many", cwd=tmp_path) as command:
        wait_for(lambda: (tmp_path / "many" / "02" / "manifest.json").exists() or None)
        command.process.send_signal(signal.SIGINT)
        finished = command.finish()
    assert finished.code == 130
    assert "of 500 runs are complete" in finished.stdout
    assert [read_run(tmp_path / "many" / name).manifest.status for name in ("01", "02")] == ["complete"] * 2


def test_the_page_draws_every_picture_and_asks_for_nothing(tmp_path: Path) -> None:
    for turn, (name, slower) in enumerate({"a": 1.0, "b": 1.1, "c": 1.2}.items()):
        write_runs(tmp_path / name, runs=5, seed=turn, slower=slower, turn=turn)
    succeed("compare", "a", "b", "c", "--html", "page.html", cwd=tmp_path, quiet=True)
    url = (tmp_path / "page.html").as_uri()
    with chromium() as browser:
        for size, scheme in ((DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light")):
            browser.show(*size, scheme=scheme)
            browser.open(url)
            assert browser.complaints() == []
            assert browser.requests() == {url}
            assert browser.run("return document.documentElement.scrollWidth") <= size[0]
        paths = "f => f.querySelectorAll('.canvas svg path').length"
        drawn = browser.run(f"return [...document.querySelectorAll('[data-chart]')].map({paths})")
        assert len(drawn) == 6, "five, and all runs over time"
        assert all(drawn), drawn
