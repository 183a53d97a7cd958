"""The name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping


def did_you_mean(word: str, known: Iterable[str], shown: Mapping[str, str] | None = None) -> str:
    """`; did you mean 'ring'?`, to be added to an error; "" if no known name is close to the word.

    Args:
        word: that is not known.
        known: names that are. A name that is spelled nearly the same comes first, then up to three that begin with the
            word, then one that is spelled somewhat alike.
        shown: name → what to show in its place.
    """
    spelled = {name.lower(): (shown or {}).get(name, name) for name in known}
    word = word.lower()
    near = difflib.get_close_matches(word, spelled, n=1, cutoff=0.85)
    near = near or [name for name in spelled if name.startswith(word) and len(word) > 1][:3]
    near = near or difflib.get_close_matches(word, spelled, n=1)
    return f"; did you mean {' or '.join(repr(spelled[name]) for name in near)}?" if near else ""
