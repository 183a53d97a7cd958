"""The site: the pages of docs/ and README as HTML, with the galleries. Reads nothing from outside, when built or read.

`python -m lab.scripts.site FOLDER [GALLERY]` needs the extra `docs`. GALLERY is what lab.scripts.gallery wrote; without
it the site has no report and no page of a trace.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.scripts.gallery import EXAMPLES, EXHIBITS, index, page_name, with_pages

ROOT = Path(__file__).resolve().parents[2]
_AS_TEXT = ("topologies/*.yaml", "docs/ci/*", "LICENSE")
"""Files that pages link to, and that a browser shows as they are."""
_DIALOG = 'data-md-component="search" role="dialog"'
"""Of the theme, which gives it no name."""


def collect(folder: Path, gallery: Path | None) -> None:
    """Put the pages of the site into a folder, where their links lead to each other.

    Args:
        folder: empty.
        gallery: what lab.scripts.gallery wrote; None: no report is shown.
    """
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("ci"))
    for page in ("CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copyfile(ROOT / page, folder / page)
    shutil.copyfile(ROOT / "README.md", folder / "index.md")
    for own in ("site.css", "site.js"):
        shutil.copyfile(Path(__file__).with_name(own), folder / own)
    for pattern in _AS_TEXT:
        for file in ROOT.glob(pattern):
            target = folder / file.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    decisions = [(page.name, page.read_text(encoding="utf-8")) for page in sorted((ROOT / "docs" / "adr").glob("*.md"))]
    listed = "".join(f"- [{text.splitlines()[0].lstrip('# ')}]({name})\n" for name, text in decisions)
    (folder / "docs" / "adr" / "index.md").write_text(f"# Decisions\n\n{listed}", encoding="utf-8")
    design = folder / "docs" / "design.md"
    design.write_text(design.read_text(encoding="utf-8").replace("](adr/)", "](adr/index.md)"), encoding="utf-8")
    for file in folder.rglob("*.md"):
        file.write_text(lists_apart(file.read_text(encoding="utf-8")), encoding="utf-8")
    reports = folder / "gallery"
    if gallery is not None:
        shutil.copytree(gallery, reports)
        examples = folder / "docs" / "examples.md"
        examples.write_text(with_pages(examples.read_text(encoding="utf-8"), gallery), encoding="utf-8")
    reports.mkdir(exist_ok=True)
    (reports / "index.md").write_text(index(reports), encoding="utf-8")


def lists_apart(text: str) -> str:
    """A page with empty lines around code and before lists and tables: Python-Markdown needs them, CommonMark not."""
    lines: list[str] = []
    is_code = False
    for line in text.splitlines():
        before = lines[-1] if lines else ""
        is_item = re.match(r"(?:[-*] |\d+\. |\|)", line) is not None
        goes_on = re.match(r"(?:[-*] |\d+\. |\|| )", before) is not None
        if is_item and before and not goes_on and not is_code:
            lines.append("")
        if line and before.startswith("```") and not is_code:
            lines.append("")
        is_code ^= line.startswith("```")
        if is_code and line.startswith("```") and before:
            lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"


def build(site: Path, gallery: Path | None) -> None:
    """Build the site; a link that leads nowhere is an error."""
    with tempfile.TemporaryDirectory(prefix="charkha-site-") as folder:
        collect(Path(folder), gallery)
        environment = {
            **os.environ,
            "CHARKHA_SITE_PAGES": folder,
            "CHARKHA_SITE": str(site.resolve()),
            "NO_MKDOCS_2_WARNING": "1",
        }
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean"]
        subprocess.run(
            [*command, "--config-file", str(Path(__file__).with_name("mkdocs.yml"))], env=environment, check=True
        )
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace(_DIALOG, f'{_DIALOG} aria-label="Search"'), encoding="utf-8")
    wanted = [*(one.name for one in EXHIBITS), *map(page_name, EXAMPLES)]
    missing = [name for name in wanted if not (site / "gallery" / f"{name}.html").exists()]
    if missing:
        print(f"without the pages {', '.join(missing)}: python -m lab.scripts.gallery makes them", file=sys.stderr)


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
