"""The name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'ring'?`, to be added to an error; "" if no known name is close to the word.

    Args:
        word: that is not known.
        known: names that are. Those that begin with the word come first, at most three of them.
    """
    names = list(known)
    near = [name for name in names if name.startswith(word) and len(word) > 1][:3]
    if not near:
        spelled = {name.lower(): name for name in names}
        near = [spelled[name] for name in difflib.get_close_matches(word.lower(), spelled, n=1)]
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
