"""Names in a run folder, and reasons that its manifest gives."""

from __future__ import annotations

MANIFEST = "manifest.json"
PARTIAL_MANIFEST = "manifest.partial.json"
CRASHED = "the run ended without closing its folder"
BROKEN = "not all ranks completed it"
