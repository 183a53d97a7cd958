import json
from pathlib import Path

import pytest

from emulator.annexes.series.suite_document import find_suite, read_suite, suite_schema
from emulator.errors import InputError
from emulator.shipped import shipped_suites
from tests.support.command import ROOT

SUITE = """\
charkha_suite: 1
name: two
description: two cases
defaults:
  job: {iterations: 3, sweep: {ranks: 4, sizes: [64K]}}
rules:
  - {metric: incomplete, at_most: 0}
cases:
  - name: reduce
    clause: "4.1"
    spec: {job: {sweep: {collective: allreduce}, algorithms: {all_reduce: ring}}}
  - name: gather
    spec: {job: {sweep: {collective: all_gather}, iterations: 9}}
    rules:
      - {metric: jct, at_most: 1 s}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "two.yaml"
    path.write_text(text)
    return path


def test_a_case_is_the_defaults_and_what_it_sets_itself(tmp_path: Path) -> None:
    suite = read_suite(write(tmp_path, SUITE))
    reduce, gather = suite.cases
    assert (suite.name, reduce.clause, gather.clause) == ("two", "4.1", None)
    assert (reduce.experiment.job.iterations, gather.experiment.job.iterations) == (3, 9)
    assert reduce.experiment.job.sweep.collective == "all_reduce"
    assert [str(one) for one in reduce.rules.rules] == ["incomplete at most 0"]
    assert [str(one) for one in gather.rules.rules] == ["jct at most 1 s"]
    assert "metric: jct" in gather.rules_text


def test_what_the_command_line_sets_overrides_every_case(tmp_path: Path) -> None:
    suite = read_suite(write(tmp_path, SUITE), over={"network": {"topology": "x.yaml"}})
    assert {one.experiment.network.topology for one in suite.cases} == {"x.yaml"}


def test_a_setting_of_every_case_is_named_as_a_sweep_names_it(tmp_path: Path) -> None:
    path = write(tmp_path, SUITE)
    suite = read_suite(path, settings=[("qps", "4"), ("job.iterations", "7")])
    assert {
        (str(one.experiment.network.transport.options["qps"]), one.experiment.job.iterations) for one in suite.cases
    } == {("4", 7)}
    assert suite.digest != read_suite(path).digest
    for setting, problem in (("qpz", "case reduce: --set qpz: .*did you mean"), ("iterations", "--set iterations=no")):
        with pytest.raises(InputError, match=problem):
            read_suite(path, settings=[(setting, "no")])


def test_paths_of_a_case_start_at_the_folder_of_the_suite(tmp_path: Path) -> None:
    text = SUITE.replace("iterations: 9}", "iterations: 9}, network: {topology: net/a.yaml}")
    _, gather = read_suite(write(tmp_path, text)).cases
    assert gather.experiment.network.topology == str(tmp_path / "net" / "a.yaml")


def test_the_digest_tells_what_is_played_not_how_it_is_described(tmp_path: Path) -> None:
    first = read_suite(write(tmp_path, SUITE)).digest
    assert read_suite(write(tmp_path, SUITE.replace("two cases", "a pair"))).digest == first
    for old, new in (("iterations: 3", "iterations: 4"), ("at_most: 1 s", "at_most: 2 s"), ("name: reduce", "name: r")):
        assert read_suite(write(tmp_path, SUITE.replace(old, new))).digest != first


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("charkha_suite: 1", "charkha_suite: 2", 1, "charkha_suite: "),
        ("name: gather", "name: reduce", 12, "cases[1].name: there are two cases 'reduce'"),
        ("name: gather", "name: a/b", 12, "cases[1].name: "),
        ("iterations: 9", "iterations: 0", 13, "cases[1].spec.job.iterations: case gather: "),
        ("iterations: 3", "iterations: many", 5, "defaults.job.iterations: case reduce: "),
        ("collective: all_gather", "collective: all_gather, rank: 4", 13, "case gather: unknown key 'rank'"),
        ("collective: all_gather", "collective: all_gahter", 13, "case gather: there is no collective"),
        ("all_reduce: ring", "all_reduce: rong", 11, "cases[0].spec.job.algorithms: case reduce: "),
        ("metric: jct", "metric: jtc", 15, "cases[1].rules[0].metric: there is no metric 'jtc'"),
        ("{metric: incomplete, at_most: 0}", "{metric: incomplete}", 7, "rules[0]: a rule needs exactly one of"),
        ("  job: {iterations: 3", "  jobs: []\n  job: {iterations: 3", 5, "write `job`"),
        ("  - name: gather\n", "  - name: gather\n    interference: {below: 2}\n", 13, "needs several jobs"),
        ("iterations: 9}", "iterations: 9}, jobs: [{name: a}, {name: a}]", 12, "several jobs named 'a'"),
        ("iterations: 9}", "iterations: 9}, campaign: {repeat: 2}", 13, "it has no campaign"),
        ("iterations: 9}", "iterations: 9}, events: [{at: 1s, do: [ls]}]", 13, "runs a command, which no suite does"),
        ("iterations: 9}", "iterations: 9}, observe: {expect: example}", 13, "the rules of a case are its key `rules`"),
    ],
)
def test_an_error_names_file_line_case_and_key(old: str, new: str, line: int, problem: str, tmp_path: Path) -> None:
    assert old in SUITE
    path = write(tmp_path, SUITE.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        read_suite(path)
    assert str(caught.value).startswith(f"{path}:{line}, ")
    assert problem in str(caught.value)


def test_a_case_without_rules_is_refused(tmp_path: Path) -> None:
    text = SUITE.replace("rules:\n  - {metric: incomplete, at_most: 0}\n", "")
    with pytest.raises(InputError, match="case reduce: has no rules"):
        read_suite(write(tmp_path, text))


SEARCH = "  - name: gather\n    search: {rate: [100Mbit, 1Gbit], resolution: 2 %, trials: 2, at_least: 950Mbit}\n"


def test_a_search_has_loads_in_bits_per_second_and_a_resolution(tmp_path: Path) -> None:
    suite = read_suite(write(tmp_path, SUITE.replace("  - name: gather\n", SEARCH)))
    found = suite.cases[1].search
    assert (found.quantity, found.low, found.high, found.at_least) == ("rate", 10**8, 10**9, 950 * 10**6)
    assert (found.resolution, found.trials) == (pytest.approx(0.02), 2)
    assert suite.cases[0].search is None


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("rate: [100Mbit, 1Gbit], ", "", "needs exactly one of rate and size"),
        ("resolution", "size: [1K, 2K], resolution", "needs exactly one of rate and size"),
        ("100Mbit", "2Gbit", "needs 0 < low < high"),
        ("950Mbit", "2Gbit", "at_least between them"),
        ("1Gbit", "fast", "'fast' is not a rate"),
        ("2 %", "200 %", "not above 0% and below 100%"),
    ],
)
def test_a_search_that_cannot_be_made_is_refused(old: str, new: str, problem: str, tmp_path: Path) -> None:
    text = SUITE.replace("  - name: gather\n", SEARCH.replace(old, new))
    with pytest.raises(InputError, match=problem) as caught:
        read_suite(write(tmp_path, text))
    assert ":13, cases[1].search" in str(caught.value)


def test_the_example_of_the_documentation_can_be_read(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "suites.md").read_text(encoding="utf-8")
    suite = read_suite(write(tmp_path, page.partition("```yaml\n")[2].partition("```")[0]))
    assert [one.name for one in suite.cases] == ["all-reduce", "trace", "latency", "load", "two-jobs"]
    assert [one.repeat for one in suite.cases] == [1, 1, 6, 1, 1]
    assert suite.cases[1].experiment.job.sweep is None


@pytest.mark.parametrize("name", shipped_suites())
def test_every_shipped_suite_can_be_read_and_is_named_after_its_file(name: str) -> None:
    suite = read_suite(find_suite(name))
    assert suite.name == name
    assert suite.description


def test_a_suite_is_found_by_its_name_or_its_file(tmp_path: Path) -> None:
    assert find_suite("smoke") == shipped_suites()["smoke"]
    assert find_suite(str(write(tmp_path, SUITE))) == tmp_path / "two.yaml"
    with pytest.raises(InputError, match="there is no suite 'smok'; did you mean 'smoke'"):
        find_suite("smok")
    with pytest.raises(InputError, match="`charkha suite list` lists"):
        find_suite("qqq")


def test_the_schema_of_a_suite_is_json_schema() -> None:
    schema = suite_schema()
    assert "cases" in json.dumps(schema)
    assert schema["$schema"].startswith("https://json-schema.org/")
