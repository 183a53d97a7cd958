"""YAML as plain values whose lines are known; what YAML would read in two ways is refused."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.errors import TopologyError
from emulator.topology.document import Document, parse_document, read_document
from emulator.units import parse_size


def document(tmp_path: Path, text: str, **limits: int) -> Document:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    return read_document(path, **limits)


def test_all_keys_are_text(tmp_path: Path) -> None:
    found = document(tmp_path, "placement: {0: h0, 1.5: h1}\nlist: [{2: x}, 3]\n")
    assert found.value == {"placement": {"0": "h0", "1.5": "h1"}, "list": [{"2": "x"}, 3]}
    assert found.digest == hashlib.sha256(b"placement: {0: h0, 1.5: h1}\nlist: [{2: x}, 3]\n").hexdigest()


def test_a_file_larger_than_the_limit_is_not_parsed(tmp_path: Path) -> None:
    assert document(tmp_path, "a: 1\n".ljust(1 << 20, "\n"), most_bytes=1 << 20).value == {"a": 1}
    with pytest.raises(TopologyError, match=r"t.yaml: cannot be read .it has more than 1 MiB.: describe regular parts"):
        document(tmp_path, "a: 1\n".ljust((1 << 20) + 1, "\n"), most_bytes=1 << 20)


@pytest.mark.parametrize(
    ("key", "where"),
    [
        ((), "t.yaml:1"),
        (("a",), "t.yaml:2, a"),
        (("a", 1, "c"), "t.yaml:4, a[1].c"),
        (("a", 1, "missing"), "t.yaml:3, a[1].missing"),
        (("a", 7), "t.yaml:2, a[7]"),
        (("z", 0), "t.yaml:1, z[0]"),
    ],
)
def test_an_error_names_the_line_of_the_nearest_key_that_exists(
    tmp_path: Path, key: tuple[str | int, ...], where: str
) -> None:
    error = document(tmp_path, "a:\n- b: 1\n- b: 2\n  c: 3\n").error("is wrong", key)
    assert str(error) == f"{tmp_path}/{where}: is wrong"


def test_after_conversion_an_error_names_the_key_without_a_line(tmp_path: Path) -> None:
    found = replace(document(tmp_path, "a: 1\n"), is_converted=True)
    assert str(found.error("is wrong", ("hosts", 0))) == f"{tmp_path}/t.yaml: is wrong (at hosts[0] after conversion)"
    assert str(found.error("is wrong")) == f"{tmp_path}/t.yaml: is wrong"


def test_quantities_are_parsed_and_may_be_left_out(tmp_path: Path) -> None:
    found = document(tmp_path, "queue: 1M\n")
    assert found.parse(parse_size, "1M", ("queue",)) == 1 << 20
    assert found.parse(parse_size, 1000, ("queue",)) == 1000  # YAML takes it for a number
    assert found.parse(parse_size, None, ("queue",)) is None
    with pytest.raises(TopologyError, match=r"t.yaml:1, queue: 'deep' is not a size"):
        found.parse(parse_size, "deep", ("queue",))


def test_an_unknown_name_is_reported_with_at_most_twelve_that_exist(tmp_path: Path) -> None:
    found = document(tmp_path, "dut: x\n")
    names = {f"n{number:02}" for number in range(13)}
    found.require("n12", names, "node", ("dut",))
    with pytest.raises(TopologyError) as caught:
        found.require("n13", names, "node", ("dut",))
    assert caught.value.problem == "there is no node 'n13'; there are " + ", ".join(sorted(names)[:12])


@pytest.mark.parametrize(
    ("text", "line", "key", "problem"),
    [
        ("", None, None, "is empty"),
        ("# nothing\n", None, None, "is empty"),
        ("hosts: 1\nhosts: 2", 2, "hosts", "appears twice"),
        ("a: [{b: 1},\n {c: 1, c: 2}]", 2, "c", "appears twice"),
        ("a: [\n]]", 2, None, "is not valid YAML"),
        ("a: !!python/object:os.system x", 1, None, "is not valid YAML"),
        ("a: \0", None, None, "is not valid YAML"),
        ("[" * 1000 + "]" * 1000, None, None, "is nested too deeply"),
        ("&a [*a]", 1, None, "uses an alias here or below: write out the value"),
        ("x: 1\na: &a [1]\nb: &b [*a, *a]\nc: &c [*b, *b]", 2, None, "uses an alias"),
        ("? [a]\n: b", 1, None, "is not valid YAML"),
    ],
)
def test_what_cannot_be_read_in_one_way_is_refused(
    tmp_path: Path, text: str, line: int | None, key: str | None, problem: str
) -> None:
    with pytest.raises(TopologyError) as caught:
        document(tmp_path, text)
    assert caught.value.problem.startswith(problem)
    assert "\n" not in str(caught.value)
    assert (caught.value.line, caught.value.key) == (line, key)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_bytes(b"a: \xff\xfe")
    with pytest.raises(TopologyError, match="is not valid YAML"):
        read_document(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: .nan", ":2: cannot be used: nan is not a finite number"),
        ("a: 1\nb: -.inf", ":2: cannot be used: -inf is not a finite number"),
        ("a: " + "9" * 400, ":1: cannot be used: a number has more than 64 bits"),
        ("a: " + "9" * 5000, ":1: cannot be used: a number has more than 64 bits"),
        ("a: 1\n? {b: 1}\n: 2", ":2: is not valid YAML (a key is plain text, not a mapping or a list)"),
        ("a: !!timestamp x", ":1: is not valid YAML (no value here has the tag"),
        ("a: !!int x", ":1: is not valid YAML (invalid literal"),
        ('a: "\\ud800"', ":1: is not valid YAML (found invalid Unicode character escape code)"),
    ],
)
def test_values_that_nothing_can_use_are_refused_with_their_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(TopologyError) as caught:
        document(tmp_path, text)
    assert problem in str(caught.value)


def test_dates_and_sexagesimal_numbers_are_texts(tmp_path: Path) -> None:
    found = document(tmp_path, "a: 1" + ":59" * 200 + ".5\nb: 2026-02-30\nc: 190:20:30\nd: 1.5\ne: 0x1F\nf: yes\n")
    assert found.value == {
        "a": "1" + ":59" * 200 + ".5", "b": "2026-02-30", "c": "190:20:30", "d": 1.5, "e": 31, "f": True
    }  # fmt: skip


def test_values_and_keys_are_counted_while_they_are_read(tmp_path: Path) -> None:
    assert parse_document(b"a: [1, 2]\n", tmp_path, most_values=5).value == {"a": [1, 2]}
    with pytest.raises(TopologyError, match="has more than 5 values and keys"):
        parse_document(b"a: [1, 2, 3]\n", tmp_path, most_values=5)
