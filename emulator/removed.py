"""What Charkha once took and takes no more, and what to use in its place: for whoever still asks for it."""

from __future__ import annotations

from collections.abc import Mapping

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
