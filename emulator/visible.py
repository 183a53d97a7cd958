"""Names from traces and files, made safe for a terminal or a page: everything that is shown goes through here."""

from __future__ import annotations

import codecs
import unicodedata

_escape = codecs.getencoder("unicode_escape")  # its module is a file, and an error may be that none can be opened


def visible(text: str) -> str:
    r"""Replace characters that control a terminal or cannot be written by escapes such as \x1b.

    Names in a trace can come from anywhere. Unchanged, they could clear the screen, hide an error
    message, or look like another name by turning the direction of the text.
    """
    if text.isprintable():
        return text
    return "".join(one if _is_shown(one) else _escape(one)[0].decode() for one in text)


def visible_lines(text: str) -> str:
    """The same for text of several lines, which stay."""
    return "\n".join(map(visible, text.split("\n")))


def short(text: str, most: int) -> str:
    """A name for a table cell: made visible, and shortened in the middle if it has more than `most` characters."""
    shown = visible(text)
    if len(shown) <= most:
        return shown
    return f"{shown[: most - most // 2 - 1]}…{shown[len(shown) - most // 2 :]}"


def _is_shown(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"
