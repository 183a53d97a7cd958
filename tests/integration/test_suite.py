"""Suites from the command line: over loopback to the end, killed and resumed, refused before any traffic."""

import json
from pathlib import Path
from xml.etree import ElementTree

from emulator import exit_codes
from emulator.results.run_folder.manifest import COMPLETE
from emulator.results.run_folder.store import find_runs, stored_run
from tests.support.command import charkha, here, started, succeed, wait_for

SUITE = """\
charkha_suite: 1
name: short
defaults:
  job: {iterations: 2, warmup: 0, sweep: {collective: all_reduce, ranks: 2, sizes: [1K]}}
  observe: {report: false}
rules:
  - {metric: incomplete, at_most: 0}
cases:
  - {name: first}
  - {name: second, spec: {job: {sweep: {collective: all_gather}}}}
"""


def complete_runs(root: Path) -> dict[str, str]:
    """Folder → run id of every complete run of a suite."""
    runs = [stored_run(folder) for folder in find_runs(root)]
    return {str(one.folder.relative_to(root)): one.manifest.run_id for one in runs if one.status == COMPLETE}


def test_a_suite_that_was_killed_is_resumed_and_plays_no_case_twice(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with started("suite", "run", "smoke", "--out", out, cwd=tmp_path) as command:
        wait_for(lambda: (out / "all-to-all").exists() or None)
        command.process.kill()
        command.process.wait()
        wait_for(lambda: True if not command.left() else None)
    before = complete_runs(out)
    assert {"all-reduce-ring", "all-gather"} <= set(before)
    assert len(before) < 5
    interrupted = json.loads((out / "suite.json").read_text())
    assert interrupted["outcome"] == "UNDECIDED"
    resumed = charkha("suite", "resume", "smoke", "--out", out, "--json", cwd=tmp_path)
    after, result = complete_runs(out), json.loads(resumed.stdout)
    assert resumed.code == exit_codes.DONE, resumed.stderr
    assert len(after) == 5
    assert before.items() <= after.items()
    assert len(set(after.values())) == 5
    assert (result["outcome"], result["started"]) == ("PASS", interrupted["started"])
    assert {one["name"]: one["runs"][0]["run_id"] for one in result["cases"]} == after
    assert "all-reduce-ring" not in resumed.stderr
    assert resumed.stderr.count("charkha: case ") == 5 - len(before)


def test_a_suite_answers_first_and_ends_with_the_exit_code_of_the_gravest_case(tmp_path: Path) -> None:
    both = "  - {name: both, spec: {jobs: [{name: a, hosts: 1/2}, {name: b, hosts: 2/2, until: others}]}}\n"
    (tmp_path / "short.yaml").write_text(SUITE + "  - {name: third, rules: [{metric: packets, at_most: 0}]}\n" + both)
    played = charkha("suite", "run", "short.yaml", "--out", "out", cwd=tmp_path)
    assert played.code == exit_codes.EXPECTATION_FAILED, played.stderr
    assert played.stdout.startswith("FAIL: third: packets is ")
    assert '<p class="answer bad"><strong>FAIL</strong>' in (tmp_path / "out" / "report.html").read_text()
    (suite,) = ElementTree.parse(tmp_path / "out" / "junit.xml").iter("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")
    assert {"both/job=a", "both/job=b"} <= set(complete_runs(tmp_path / "out"))
    judged = here("runs", "judge", "out/third", cwd=tmp_path)
    assert judged.code == exit_codes.EXPECTATION_FAILED
    assert judged.stdout.startswith("FAIL: packets is ")
    history = succeed("suite", "history", "out", cwd=tmp_path)
    assert "FAIL" in history.stdout


def test_shipped_suites_are_listed_and_shown(tmp_path: Path) -> None:
    listed = charkha("suite", "list", "--json", cwd=tmp_path)
    assert "smoke" in [one["name"] for one in json.loads(listed.stdout)]
    shown = charkha("suite", "show", "smoke", cwd=tmp_path)
    assert "all-reduce-ring" in shown.stdout
