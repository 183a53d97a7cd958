"""Names of files in a run folder and around it, and reasons in its manifest."""

from __future__ import annotations

MANIFEST = "manifest.json"
PARTIAL_MANIFEST = "manifest.partial.json"
CRASHED = "the run ended without closing its folder"
BROKEN = "not all ranks completed it"
SESSION = "session.json"
