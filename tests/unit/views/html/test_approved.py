"""Pages as somebody has read and approved them: every section, table, sentence and data set of a picture."""

from pathlib import Path

import pytest

from emulator.results.run_folder.reader import read_run
from emulator.views.html.facts import read_facts
from emulator.views.html.page.document import Page
from emulator.views.html.run_page import run_page
from tests.data.make_run_v1 import FOLDER
from tests.support.approved import approved, page_text
from tests.support.pages import KINDS, pages


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Page]]:
    folder = tmp_path_factory.mktemp("pages")
    return folder, {"golden": run_page(read_facts(read_run(FOLDER))), **dict(pages(folder))}


@pytest.mark.parametrize("kind", ["golden", *(one for one in KINDS if not one.startswith("live"))])
def test_a_page_says_what_was_approved(made: tuple[Path, dict[str, Page]], kind: str) -> None:
    folder, found = made
    approved(kind, page_text(found[kind]).replace(str(folder), "FOLDER").replace(str(FOLDER), "FOLDER"))
