"""The plain types of the control conversation and the messages of proto/control.proto have the same fields."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from emulator._pb import control_pb2 as pb
from emulator.control.conversation import AgentValue, ControllerValue
from emulator.control.wire.codec import message_name

GROUP = "charkha.control.Group"
"""Protobuf has no sequences of sequences: an inner one is a message of its own, and a tuple here."""


def field_names(kind: Any) -> set[str]:
    """All that a value of the type is made with."""
    return {one.name for one in fields(kind) if one.init} if is_dataclass(kind) else set(kind._fields)


def message_fields(message: Descriptor) -> dict[str, list[FieldDescriptor]]:
    """By name; a choice of several is one field."""
    found: dict[str, list[FieldDescriptor]] = {}
    for one in message.fields:
        choice = one.containing_oneof
        name = one.name if choice is None or choice.name == f"_{one.name}" else choice.name  # `_x` of `optional x`
        found.setdefault(name, []).append(one)
    return found


def of_field(field: FieldDescriptor) -> Descriptor | None:
    """The message in a field, or of the values of a map; None: a scalar."""
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        message = message.fields_by_name["value"].message_type
    return message


def types_in(hint: Any) -> Iterator[Any]:
    """The types with fields in an annotation."""
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        yield hint
    for one in get_args(hint):
        yield from types_in(one)


def pairs() -> dict[str, tuple[Any, Descriptor]]:
    """Every type of the conversation and its message, by the name of the message."""
    found: dict[str, tuple[Any, Descriptor]] = {}

    def add(kind: Any, message: Descriptor) -> None:
        if message.full_name not in found:
            found[message.full_name] = kind, message
            hints = get_type_hints(kind)
            for name, ones in message_fields(message).items():
                inner = of_field(ones[0])
                if inner is not None and inner.full_name != GROUP and name in hints:
                    (of_hint,) = types_in(hints[name])
                    add(of_hint, inner)

    for values, envelope in ((AgentValue, pb.AgentMessage), (ControllerValue, pb.ControllerMessage)):
        for kind in get_args(values):
            add(kind, envelope.DESCRIPTOR.fields_by_name[message_name(kind)].message_type)
    return found


@pytest.mark.parametrize(("kind", "message"), [pytest.param(*one, id=name) for name, one in pairs().items()])
def test_a_type_has_the_fields_of_its_message(kind: Any, message: Descriptor) -> None:
    assert field_names(kind) == set(message_fields(message))


@pytest.mark.parametrize(
    ("values", "envelope"), [(AgentValue, pb.AgentMessage), (ControllerValue, pb.ControllerMessage)]
)
def test_every_message_of_an_envelope_has_a_type(values: Any, envelope: Any) -> None:
    (choice,) = (one for one in envelope.DESCRIPTOR.oneofs if one.name == "message")
    assert {message_name(kind) for kind in get_args(values)} == {one.name for one in choice.fields}


def test_there_is_no_message_that_nobody_sends() -> None:
    declared = {one.full_name for one in pb.DESCRIPTOR.message_types_by_name.values()}
    assert declared - set(pairs()) == {GROUP, "charkha.control.AgentMessage", "charkha.control.ControllerMessage"}
