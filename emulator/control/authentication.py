"""How controller and agent prove to each other that they have the same key, and what binds a run description.

The proof is the three-pass mutual authentication of ISO/IEC 9798-4: each side sends a nonce, and a code over both that
only the key makes. The controller proves first, so that a stranger in its place learns nothing of the key. The codes
are HMAC-SHA-256 (RFC 2104). Without a key the code of an empty one is exchanged: then files or certificates protect.
"""

from __future__ import annotations

import hmac
import os
import secrets
from dataclasses import dataclass
from enum import StrEnum

NONCE_BYTES = 16
TOKEN_VARIABLE = "CHARKHA_TOKEN"

_taken: list[str] = []


class Purpose(StrEnum):
    """What a code or signature says; one of a purpose is worth nothing for another."""

    CONTROLLER = "controller"
    AGENT = "agent"
    DESCRIPTION = "run description"


@dataclass(frozen=True, slots=True)
class Binding:
    """One conversation: a code or signature over it is refused in every other.

    Attributes:
        agent_nonce: chosen by the agent for this conversation; `controller_nonce`: by the controller.
    """

    run_id: str
    agent: str
    agent_nonce: bytes
    controller_nonce: bytes

    def statement(self, purpose: Purpose, content: bytes = b"", *, number: int = 0) -> bytes:
        """What is signed: unambiguous bytes that hold every part with its length.

        Args:
            purpose: what the signature will say.
            content: what it is about.
            number: of the description in this conversation, so that none can be repeated or left out.
        """
        parts = (
            b"charkha control 3",
            purpose.encode(),
            self.run_id.encode(),
            self.agent.encode(),
            self.agent_nonce,
            self.controller_nonce,
            str(number).encode(),
            content,
        )
        return b"".join(len(part).to_bytes(8) + part for part in parts)


def new_nonce() -> bytes:
    """Bytes that nobody can foresee."""
    return secrets.token_bytes(NONCE_BYTES)


def code_of(key: bytes, statement: bytes) -> bytes:
    """The code that only this key makes."""
    return hmac.digest(key, statement, "sha256")


def is_code_of(key: bytes, statement: bytes, code: bytes) -> bool:
    """Whether it is the key's, in a time that does not tell how much of it is right."""
    return hmac.compare_digest(code_of(key, statement), code)


def token_of_environment() -> str | None:
    """CHARKHA_TOKEN, taken out of the environment, so that no child of this process inherits it.

    It is remembered for the next run.
    """
    if (found := os.environ.pop(TOKEN_VARIABLE, None)) is not None:
        _taken[:] = [found]
    return _taken[0] if _taken else None
