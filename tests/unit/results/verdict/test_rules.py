from pathlib import Path

import jsonschema
import pytest
import yaml

from emulator.errors import InputError
from emulator.results.statistics.metric import Unit
from emulator.results.statistics.metrics import METRICS
from emulator.results.statistics.samples.classes import ClassKey
from emulator.results.verdict.rules import EXAMPLE, RULES_FILE, Rules, load_rules, rules_file, rules_of, rules_schema
from tests.support.runs import collective, write_run

ALL_REDUCE = ClassKey("all_reduce", 8, 1 << 20, "ring")


def read(folder: Path, *rules: str) -> Rules:
    path = folder / "rules.yaml"
    path.write_text("charkha_rules: 1\nrules:\n" + "".join(f"  - {{{one}}}\n" for one in rules))
    return load_rules(str(path))


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("metric: jct, at_most: 25 ms", 25e6),
        ("metric: cct_p99, below: 1.5us", 1500.0),
        ("metric: busbw, at_least: 1.2 GB/s", 1.2e9),
        ("metric: busbw, at_least: 10 Gbit/s", 1.25e9),
        ("metric: busbw_to_ideal, at_least: 90 %", 90.0),
        ("metric: jct_to_ideal, at_most: 105 %", 1.05),
        ("metric: jct_to_ideal, at_most: 1.05", 1.05),
        ("metric: device_drops, at_most: 0", 0.0),
    ],
)
def test_a_limit_is_read_in_the_unit_of_its_metric(text: str, limit: float, tmp_path: Path) -> None:
    (rule,) = read(tmp_path, text).rules
    assert rule.bound.limit == pytest.approx(limit)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("metric: busbv, at_least: 1 GB/s", "there is no metric 'busbv'; did you mean 'busbw'?"),
        ("metric: busbw, at_least: 1", "'1' is not a bandwidth: write 1.2 GB/s (1e9 bytes) or 10 Gbit/s"),
        ("metric: busbw_to_ideal, at_least: 0.9", "'0.9' has no unit: write a percentage such as 90 %"),
        ("metric: jct, at_most: 25", "'25' is not a time: give a number with a unit"),
        ("metric: device_drops, at_most: -1", "'-1' is not a number of at least 0"),
        ("metric: jct_to_ideal, at_most: nan", "'nan' is not a number of at least 0"),
        ("metric: jct", "a rule needs exactly one of at_most, at_least, below and above"),
        ("metric: jct, at_most: 1 s, below: 1 s", "a rule needs exactly one of"),
        ("metric: jct, at_most: 1 s, where: {ranks: 8}", "the whole run: only those of classes have a `where`"),
        ("metric: frames_lost, at_most: 0, where: {ranks: 8}", "frames_lost is a metric of every device"),
        ("metric: flow_rtt, at_most: 1 ms, where: {ranks: 8}", "flow_rtt is a metric of every flow"),
        ("metric: busbw, at_least: 1 GB/s, where: {min_size: big}", "'big' is not a size"),
        ("metric: busbw, at_leest: 1 GB/s", "unknown key 'at_leest'; did you mean 'at_least'?"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_with_its_place(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, "metric: jct, at_most: 1 s", text)
    assert problem in str(refused.value)
    assert f"{tmp_path / 'rules.yaml'}:4, rules[1]" in str(refused.value)


def test_files_that_are_no_rules_are_refused(tmp_path: Path) -> None:
    for content in ("", "- 1", "charkha_rules: 2\nrules: [{metric: jct, at_most: 1 s}]", "charkha_rules: 1\nrules: []"):
        (tmp_path / "bad.yaml").write_text(content)
        with pytest.raises(InputError, match=r"bad\.yaml"):
            load_rules(str(tmp_path / "bad.yaml"))
    with pytest.raises(InputError, match="cannot be read"):
        load_rules(str(tmp_path / "absent.yaml"))


@pytest.mark.parametrize(
    ("where", "is_taken"),
    [
        ("collective: all_reduce", True),
        ("collective: all_gather", False),
        ("ranks: 8, algorithm: ring", True),
        ("ranks: 4", False),
        ("min_size: 1M", True),
        ("min_size: 2M", False),
        ("max_size: 1M", True),
        ("max_size: 64K", False),
    ],
)
def test_where_selects_classes(where: str, is_taken: bool, tmp_path: Path) -> None:
    (rule,) = read(tmp_path, f"metric: busbw, at_least: 1 GB/s, where: {{{where}}}").rules
    assert rule.where.takes(ALL_REDUCE) is is_taken


def test_bounds_include_their_limit_only_if_they_say_so(tmp_path: Path) -> None:
    texts = ("at_most: 10", "below: 10", "at_least: 10", "above: 10")
    rules = read(tmp_path, *(f"metric: device_drops, {text}" for text in texts)).rules
    assert [[rule.bound.holds(value) for value in (9, 10, 11)] for rule in rules] == [
        [True, True, False],
        [True, False, False],
        [False, True, True],
        [False, False, True],
    ]
    assert [rule.bound.is_lower for rule in rules] == [False, False, True, True]
    assert str(rules[0]) == "device_drops at most 10"


def test_the_shipped_rules_are_marked_as_an_example() -> None:
    rules = load_rules(EXAMPLE)
    assert rules.is_example
    assert {str(one) for one in rules.rules} >= {
        "slowest_to_mean below 1.1",
        "busbw_to_ideal at least 90 %",
        "frames_lost at most 0",
        "unexplained_retransmissions at most 0",
    }
    assert "not a norm" in rules_file(EXAMPLE).read_text()


def test_a_file_named_like_the_shipped_rules_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(EXAMPLE).write_text("charkha_rules: 1\nname: mine\nrules: [{metric: jct, at_most: 1 s}]\n")
    rules = load_rules(EXAMPLE)
    assert (rules.name, rules.is_example) == ("mine", False)


def test_a_run_keeps_the_rules_that_it_was_played_with(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", collective([0, 0], [9, 9]))
    assert rules_of(run) is None
    (run.folder / RULES_FILE).write_text("charkha_rules: 1\nrules: [{metric: jct, at_most: 1 s}]\n")
    found = rules_of(run)
    assert [str(one) for one in found.rules] == ["jct at most 1 s"]


def test_the_exported_schema_accepts_the_shipped_rules_and_refuses_misspelt_keys() -> None:
    document = yaml.safe_load(rules_file(EXAMPLE).read_text())
    jsonschema.validate(document, rules_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"rule": []}, rules_schema())


def test_every_unit_of_a_metric_can_be_written_in_a_rule(tmp_path: Path) -> None:
    samples = {Unit.NS: "1 ms", Unit.BYTES_PER_S: "1 GB/s", Unit.PERCENT: "1 %", Unit.RATIO: "1.0", Unit.COUNT: "1"}
    rules = read(tmp_path, *(f"metric: {one.name}, at_most: {samples[one.unit]}" for one in METRICS.values())).rules
    assert [one.metric.name for one in rules] == list(METRICS)


def test_classes_are_named_as_nccl_does_too(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    for text, name in (("allreduce", "all_reduce"), ("SendRecv", "send_recv")):
        path.write_text(f"rules: [{{metric: busbw, at_least: 1 GB/s, where: {{collective: {text}}}}}]\n")
        assert load_rules(str(path)).rules[0].where.collective == name
    path.write_text("rules: [{metric: busbw, at_least: 1 GB/s, where: {collective: all_redcue}}]\n")
    with pytest.raises(InputError, match=r"there is no collective 'all_redcue'; did you mean 'all_reduce'\?"):
        load_rules(str(path))
