"""Advice for a word that is not known: the name that was probably meant, or what became of what Charkha once took."""

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


_PROCESSES = "an import uses every core of this machine by itself"
REMOVED_WORDS: Mapping[str, str] = {
    "check --ray": f"--ray was removed: {_PROCESSES}",
    "convert --ray": f"--ray was removed: {_PROCESSES}",
    "plan --ray": f"--ray was removed: {_PROCESSES}",
    "sweep --phase": "--phase was removed: use --vary job.start=0ms:200ms:10ms",
    "launch ray": "the engine ray was removed: use local, ssh, slurm or kubernetes",
}
"""Command and word of a command line → what became of it."""
REMOVED_KEYS: Mapping[str, str] = {
    "grpc": "gRPC was removed from the service: HTTP has every operation (/openapi.json), the Python client speaks it",
}
"""Key of a document → what became of it."""
OLD_WORDS: Mapping[str, str] = {
    **{word: f"trace {word}" for word in ("check", "generate", "convert", "view", "diff", "anonymize", "synth")},
    **{word: f"runs {word}" for word in ("export", "watch", "audit")},
    **{word: f"agent {word}" for word in ("launch", "certs", "calibrate", "peer")},
    **{word: f"help {word}" for word in ("examples", "completion")},
    "pairs": "bench pairs",
    "controller": "run --by-hand",
    "expect": "runs judge",
    "probe": "lab probe",
}
"""Command of 0.1.0 → what it is now. The old word works until 1.0."""
