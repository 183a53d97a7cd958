"""Names from traces and files, made safe for a terminal."""

from __future__ import annotations

import unicodedata


def visible(text: str) -> str:
    r"""Replace characters that control a terminal or cannot be written by escapes such as \x1b.

    Names in a trace can come from anywhere. Printed unchanged, they could clear the screen or hide an error message.
    """
    if text.isprintable():
        return text
    return "".join(one if _is_shown(one) else one.encode("unicode_escape").decode() for one in text)


def short(text: str, most: int) -> str:
    """A name for a table cell: made visible, and shortened in the middle if it has more than `most` characters."""
    shown = visible(text)
    if len(shown) <= most:
        return shown
    return f"{shown[: most - most // 2 - 1]}…{shown[len(shown) - most // 2 :]}"


def _is_shown(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"
