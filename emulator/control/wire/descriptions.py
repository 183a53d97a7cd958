"""Run descriptions, what decides where an agent sends and how much, as bytes that are bound to one conversation.

The bytes that were signed are the ones that travel, so nothing depends on how a value is serialised. TLS protects the
stream; the signature protects what a proxy, or a controller with somebody else's certificate, could put into it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from emulator.control import conversation as control
from emulator.control.authentication import Binding, Purpose, code_of, is_code_of
from emulator.control.certificates.roles import Role
from emulator.control.wire.codec import decode_controller, encode_controller
from emulator.errors import RemoteProtocolError

if TYPE_CHECKING:
    from emulator.control.certificates.signature import Signer

DESCRIPTIONS = (control.Setup, control.Directory)


class Encoder:
    """Values of a controller as bytes; those of a directory, which is long and goes to every agent, are made once."""

    def __init__(self) -> None:
        self._directory: tuple[control.Directory, int | None, bytes] | None = None

    def __call__(self, value: control.ControllerValue, job: int | None) -> bytes:
        """The message for a value."""
        if not isinstance(value, control.Directory):
            return encode_controller(value, job)
        if self._directory is None or self._directory[0] is not value or self._directory[1] != job:
            self._directory = value, job, encode_controller(value, job)
        return self._directory[2]


@dataclass(slots=True)
class Sealer:
    """The controller's side of a conversation.

    Attributes:
        key: that the agent has as well.
        signer: the controller's identity; None: it has none.
        plain: encodes what is signed or sent as it is; shared by all agents.
    """

    binding: Binding
    key: bytes
    signer: Signer | None = None
    plain: Encoder = field(default_factory=Encoder)
    _count: int = 0

    def encode(self, value: control.ControllerValue, job: int | None) -> bytes:
        """The message for a value, signed if it is a run description."""
        content = self.plain(value, job)
        if not isinstance(value, DESCRIPTIONS):
            return content
        self._count += 1
        statement = self.binding.statement(Purpose.DESCRIPTION, content, number=self._count)
        signature, certificate = b"", b""
        if self.signer is not None:
            signature, certificate = self.signer.sign(statement), self.signer.certificate
        return encode_controller(control.Signed(content, code_of(self.key, statement), signature, certificate))


@dataclass(slots=True)
class Opener:
    """The agent's side of it.

    Attributes:
        key: that the controller has as well.
        authority: PEM; descriptions must be signed by a controller that it certifies. None: the agent has no identity.
    """

    binding: Binding
    key: bytes
    authority: bytes | None = None
    _count: int = 0

    def decode(self, data: bytes) -> control.JobMessage[Any]:
        """The value in a message, and the job that it is about.

        Raises:
            RemoteProtocolError: it is damaged, or a run description that is not signed for this conversation.
        """
        message = decode_controller(data)
        if isinstance(message.value, DESCRIPTIONS):
            raise RemoteProtocolError("the controller sent an unsigned run description")
        return self._opened(message.value) if isinstance(message.value, control.Signed) else message

    def _opened(self, signed: control.Signed) -> control.JobMessage[Any]:
        self._count += 1
        statement = self.binding.statement(Purpose.DESCRIPTION, signed.message, number=self._count)
        if not is_code_of(self.key, statement, signed.code):
            raise RemoteProtocolError("the run description was altered, or is for a different run or agent")
        if self.authority is not None:
            _check_signature(statement, signed, self.authority)
        message = decode_controller(signed.message)
        if not isinstance(message.value, DESCRIPTIONS):
            raise RemoteProtocolError(f"the controller signed {type(message.value).__name__}, not a run description")
        return message


def _check_signature(statement: bytes, signed: control.Signed, authority: bytes) -> None:
    from emulator.control.certificates.signature import check_signature  # loads more than most runs need

    if not signed.signature:
        raise RemoteProtocolError("the run description is not signed with a controller's identity")
    try:
        check_signature(statement, signed.signature, signed.certificate, authority=authority, role=Role.CONTROLLER)
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"the run description was refused: {error}") from error
