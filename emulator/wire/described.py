"""Protobuf messages and a gRPC service that types describe, with the `.proto` text for programs in other languages.

A message has the fields of its type, numbered in their order: a new field goes to the end. What a message leaves out
has the default of the type. Mappings become `google.protobuf.Struct`, whose numbers are doubles; a list becomes a
message with `items`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, struct_pb2, timestamp_pb2
from google.protobuf.message import DecodeError, Message
from msgspec import inspect

Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: dict[type[inspect.Type], tuple[Field.Type.ValueType, str]] = {
    inspect.StrType: (Field.TYPE_STRING, "string"),
    inspect.EnumType: (Field.TYPE_STRING, "string"),
    inspect.IntType: (Field.TYPE_INT64, "int64"),
    inspect.FloatType: (Field.TYPE_DOUBLE, "double"),
    inspect.BoolType: (Field.TYPE_BOOL, "bool"),
}
_SEVERAL = (inspect.ListType, inspect.VarTupleType, inspect.CollectionType)
_OBJECT, _TIME = struct_pb2.Struct.DESCRIPTOR.full_name, timestamp_pb2.Timestamp.DESCRIPTOR.full_name
_IMPORTS = (struct_pb2.DESCRIPTOR.name, timestamp_pb2.DESCRIPTOR.name)


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the service: `request` is a struct; `answer` a struct, a list of one, or a mapping."""

    name: str
    request: Any
    answer: Any
    is_stream: bool = False


class Described:
    """Messages of the types of methods.

    Args:
        package: of the messages and the service.
        service: its name.
        methods: of the service.
    """

    def __init__(self, package: str, service: str, methods: Sequence[Method]) -> None:
        self.name = f"{package}.{service}"
        self._package, self._service, self._methods = package, service, methods
        self._file = descriptor_pb2.FileDescriptorProto(
            name=f"{package}.proto", package=package, syntax="proto3", dependency=_IMPORTS
        )
        self._names: dict[Any, str] = {}
        for one in methods:
            for kind in (one.request, one.answer):
                self._names[kind] = self._message_of(inspect.type_info(kind))
        pool = descriptor_pool.DescriptorPool()
        for well_known in (struct_pb2, timestamp_pb2):
            pool.AddSerializedFile(well_known.DESCRIPTOR.serialized_pb)
        pool.AddSerializedFile(self._file.SerializeToString())
        found = {kind: pool.FindMessageTypeByName(name) for kind, name in self._names.items()}
        self._classes = {kind: message_factory.GetMessageClass(one) for kind, one in found.items()}

    def encode(self, kind: Any, value: Any) -> bytes:
        """A value of a type as the bytes of its message."""
        plain = msgspec.to_builtins(value)
        content = {"items": plain} if isinstance(plain, list) else plain
        message: Message = json_format.ParseDict(content, self._classes[kind]())
        return message.SerializeToString()

    def decode(self, kind: Any, content: bytes) -> Any:
        """The bytes of a message as plain values; whole numbers are texts.

        Raises:
            ValueError: they are no such message.
        """
        try:
            message = self._classes[kind].FromString(content)
            plain = json_format.MessageToDict(message, preserving_proto_field_name=True)
        except (DecodeError, json_format.Error) as error:
            raise ValueError(str(error)) from error
        return plain.get("items", []) if inspect.type_info(kind).__class__ in _SEVERAL else plain

    def proto(self) -> str:
        """The text of the `.proto` file."""
        lines = ['syntax = "proto3";', f"package {self._package};", *(f'import "{one}";' for one in _IMPORTS), ""]
        lines += [f"service {self._service} {{"]
        for one in self._methods:
            stream = "stream " if one.is_stream else ""
            request, answer = self._names[one.request], self._names[one.answer]
            lines.append(f"  rpc {one.name}(.{request}) returns ({stream}.{answer});")
        lines += ["}"]
        for message in self._file.message_type:
            lines += ["", f"message {message.name} {{", *map(_line, message.field), "}"]
        return "\n".join([*lines, ""])

    def _message_of(self, info: inspect.Type) -> str:
        """Full name of the message of a type; it is described if it is not yet."""
        if isinstance(info, inspect.DictType):
            return _OBJECT
        if isinstance(info, inspect.ListType):
            assert isinstance(info.item_type, inspect.StructType)
            return self._describe(f"{info.item_type.cls.__name__}List", [("items", info)])
        assert isinstance(info, inspect.StructType)
        return self._describe(info.cls.__name__, [(one.encode_name, one.type) for one in info.fields])

    def _describe(self, name: str, fields: Sequence[tuple[str, inspect.Type]]) -> str:
        if all(one.name != name for one in self._file.message_type):
            described = [self._field(*field, number) for number, field in enumerate(fields, 1)]
            message = self._file.message_type.add(name=name, field=described)
            for one in message.field:
                if one.proto3_optional:
                    one.oneof_index = len(message.oneof_decl)
                    message.oneof_decl.add(name=f"_{one.name}")
        return f"{self._package}.{name}"

    def _field(self, name: str, info: inspect.Type, number: int) -> Field:
        is_optional = isinstance(info, inspect.UnionType)
        if isinstance(info, inspect.UnionType):
            (info,) = (one for one in info.types if not isinstance(one, inspect.NoneType))
        is_repeated = isinstance(info, _SEVERAL)
        item = _bare(info.item_type if isinstance(info, _SEVERAL) else info)
        kind: Field.Type.ValueType = Field.TYPE_MESSAGE
        message = ""
        if type(item) in _SCALARS:
            kind = _SCALARS[type(item)][0]
        elif isinstance(item, inspect.DateTimeType):
            message = _TIME
        else:
            message = self._message_of(item)
        return Field(
            name=name,
            number=number,
            type=kind,
            type_name=f".{message}" if message else None,
            label=Field.LABEL_REPEATED if is_repeated else Field.LABEL_OPTIONAL,
            proto3_optional=is_optional and not message,
        )


def _bare(info: inspect.Type) -> inspect.Type:
    return info.type if isinstance(info, inspect.Metadata) else info


def _line(field: Field) -> str:
    kind = field.type_name or next(text for number, text in _SCALARS.values() if number == field.type)
    prefix = "repeated " if field.label == Field.LABEL_REPEATED else "optional " if field.proto3_optional else ""
    return f"  {prefix}{kind} {field.name} = {field.number};"
