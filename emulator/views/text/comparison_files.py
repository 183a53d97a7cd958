"""A comparison as files: an HTML page, JUnit XML."""

from __future__ import annotations

from pathlib import Path

from emulator.host.files import write_text
from emulator.results.comparison.verdicts import GroupComparison


def write_comparison(comparison: GroupComparison, *, html: Path | None, junit: Path | None, is_strict: bool) -> None:
    """Write the files that are requested.

    Args:
        html, junit: the files; None: not written.
        is_strict: an inconclusive class is a failure in the XML.

    Raises:
        HostError: a file cannot be written.
    """
    # Imported where they are needed: pages take a tenth of a second.
    if html is not None:
        from emulator.views.html.comparison_page import comparison_page
        from emulator.views.html.page.document import render

        write_text(html, render(comparison_page(comparison)))
    if junit is not None:
        from emulator.views.junit import comparison_to_xml

        write_text(junit, comparison_to_xml(comparison, is_strict=is_strict))
