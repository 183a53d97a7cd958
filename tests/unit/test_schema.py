from typing import Annotated, Literal

import msgspec
import pytest

from emulator.schema import SchemaProblem, Section, decode, format_path, json_schema, require_one_of


class Port(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    mtu: Annotated[int, msgspec.Meta(ge=576, le=65_535)] = 1500
    speed: Literal["fast", "slow"] | int | None = None
    labels: dict[str, str] = {}


class Host(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    ports: tuple[Port, ...] = ()


class Limit(Section, frozen=True):
    above: int | None = None
    below: int | None = None
    at: int | None = None

    def __post_init__(self) -> None:
        require_one_of(self, "above", "below", "at")


@pytest.mark.parametrize("document", [{}, {"above": 1, "below": 2}, {"above": 1, "below": 2, "at": 0}])
def test_a_section_has_exactly_one_of_the_required_keys(document: dict[str, int]) -> None:
    with pytest.raises(SchemaProblem, match="needs exactly one of above, below and at"):
        decode(document, Limit)
    assert decode({"at": 0}, Limit) == Limit(at=0)


def test_a_section_refuses_misspelt_keys() -> None:
    with pytest.raises(SchemaProblem, match="unknown key 'abvoe'; did you mean 'above'"):
        decode({"abvoe": 1}, Limit)


def test_a_document_becomes_a_value_of_its_type() -> None:
    assert decode({"name": "a", "ports": [{"name": "eth0", "mtu": 9000}]}, Host) == Host("a", (Port("eth0", 9000),))


@pytest.mark.parametrize(
    ("document", "path", "problem"),
    [
        ({}, (), "the key 'name' is missing"),
        ({"name": 1}, ("name",), "has no unit; if it is a name, put it in quotes"),
        ({"name": "a", "ports": [{"name": "b"}, {"name": "c", "mtu": 9}]}, ("ports", 1, "mtu"), "expected int >= 576"),
        (
            {"name": "a", "ports": [{"name": "b", "speed": "high"}]},
            ("ports", 0, "speed"),
            "'high' is not one of fast, slow, int",
        ),
        (
            {"name": "a", "ports": [{"name": "b", "labels": {"x": 1}}]},
            ("ports", 0, "labels"),
            "has no unit; if it is a name, put it in quotes",
        ),
        ({"name": "a", "mtu": 9000}, (), "unknown key 'mtu' in this place: it belongs elsewhere"),
        ({"name": "a", "prots": []}, (), "unknown key 'prots'; did you mean 'ports'?"),
        ({"name": "a", "ports": [{"name": "b", "zzz": 1}]}, ("ports", 0), "unknown key 'zzz'"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(document: object, path: tuple[str | int, ...], problem: str) -> None:
    with pytest.raises(SchemaProblem) as caught:
        decode(document, Host)
    assert caught.value.path == path
    assert caught.value.problem == problem


def test_a_path_reads_as_people_write_it() -> None:
    assert format_path(("hosts", 3, "ports", 0, "rate")) == "hosts[3].ports[0].rate"


def test_the_exported_schema_refuses_unknown_keys() -> None:
    schema = json_schema(Host)
    assert schema["$defs"]["Port"]["additionalProperties"] is False
    assert schema["$defs"]["Port"]["properties"]["mtu"]["minimum"] == 576
