"""Rules and verdicts from the command line: what is refused before traffic, what is printed first, the exit code."""

import json
from pathlib import Path
from xml.etree import ElementTree

from emulator import exit_codes
from tests.support.command import EXAMPLE, answer, charkha, here

GOLDEN = Path(__file__).parents[1] / "data" / "run-0.1.0"
WIDE = (
    "charkha_rules: 1\nname: wide\nrules:\n  - {metric: jct, at_most: 1000 s}\n  - {metric: incomplete, at_most: 0}\n"
)


def rules(folder: Path, text: str, name: str = "rules.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_stored_run_is_judged_by_rules(tmp_path: Path) -> None:
    found = charkha("runs", "judge", GOLDEN, rules(tmp_path, WIDE), cwd=tmp_path)
    assert found.code == exit_codes.DONE
    assert found.stdout.splitlines()[0].startswith("PASS: all 2 checks met; wide")


def test_drops_of_the_device_fail_the_shipped_rules_and_come_first(tmp_path: Path) -> None:
    found = here("runs", "judge", GOLDEN, "--json", cwd=tmp_path)
    verdict = json.loads(found.stdout)
    assert found.code == exit_codes.EXPECTATION_FAILED
    assert (verdict["outcome"], verdict["is_example"]) == ("FAIL", True)
    assert (verdict["checks"][0]["metric"], verdict["checks"][0]["value"]) == ("frames_lost", 15)
    assert verdict["text"].startswith("FAIL: frames_lost of sw0 is 15 (at most 0)")
    lost = next(one for one in verdict["checks"] if one["metric"] == "unexplained_retransmissions")
    assert (lost["outcome"], lost["value"]) == ("PASS", 0)


def test_a_run_answers_first_and_keeps_its_rules(tmp_path: Path) -> None:
    path = rules(tmp_path, WIDE)
    played = charkha(
        "bench", "all_reduce", "-n", "2", "-b", "1K", "-e", "1K", "--expect", path, "--out", "run", cwd=tmp_path
    )
    assert played.code == exit_codes.DONE, played.stderr
    assert played.stdout.splitlines()[0].startswith("# PASS: all 2 checks met; wide")
    path.unlink()
    (listed,) = json.loads(here("runs", "list", ".", "--json", cwd=tmp_path).stdout)
    assert (listed["verdict"], listed["lost"], listed["topology"]) == ("PASS", 0, "loopback")
    shown = json.loads(charkha("runs", "show", "run", "--json", cwd=tmp_path).stdout)
    assert listed["jct_ns"] == shown["jct_ns"] == shown["iteration"]["jct_ns"]
    again = here("runs", "judge", "run", "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["rules"] == "wide"
    answer("runs", "export", "run", "--to", "junit", "--out", "run.xml", cwd=tmp_path)
    cases = [one.get("name") for one in ElementTree.parse(tmp_path / "run.xml").iter("testcase")]
    assert cases[:3] == ["verdict", "jct at most 1000 s", "incomplete at most 0"]
    assert '<p class="answer good"><strong>PASS</strong>' in (tmp_path / "run" / "report.html").read_text()


def test_a_run_that_misses_a_bound_fails_with_its_exit_code(tmp_path: Path) -> None:
    path = rules(tmp_path, "charkha_rules: 1\nrules:\n  - {metric: packets, at_most: 0}\n")
    played = charkha(
        "run", EXAMPLE, "--iterations", "1", "--warmup", "0", "--expect", path, "--out", "run", cwd=tmp_path
    )
    assert played.code == exit_codes.EXPECTATION_FAILED, played.stderr
    assert played.stdout.startswith("FAIL: packets is ")
    answer("report", "run", "--out", "again.html", cwd=tmp_path)
    assert '<p class="answer bad"><strong>FAIL</strong>' in (tmp_path / "again.html").read_text()
