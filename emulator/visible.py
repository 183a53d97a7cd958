"""Names from traces and files, made harmless for a terminal."""

from __future__ import annotations

import unicodedata


def visible(text: str) -> str:
    r"""Characters that would steer a terminal, or cannot be written, as escapes (\x1b); blanks and letters stay.

    Names in a trace come from anywhere: shown as they are they could clear the screen, or hide what is said about them.
    """
    if text.isprintable():
        return text
    return "".join(one if _is_shown(one) else one.encode("unicode_escape").decode() for one in text)


def short(text: str, most: int) -> str:
    """A name for a cell: made visible, and where it has more than `most` characters, its middle left out."""
    shown = visible(text)
    if len(shown) <= most:
        return shown
    return f"{shown[: most - most // 2 - 1]}…{shown[len(shown) - most // 2 :]}"


def _is_shown(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"
