"""Names in traces, topologies and paths control no terminal and turn no text, whatever prints them."""

import os
import re
import unicodedata
from pathlib import Path

import pytest
import yaml

from tests.support.command import charkha
from tests.support.trace_files import collective, compute, write

NAME = "n\u202ek\x1b[31m\x07"
TOPOLOGY = yaml.safe_dump(
    {
        "name": NAME,
        "hosts": [{"name": f"h{number}{NAME}", "per_rank": f"127.{number + 1}.0.0/24"} for number in range(2)],
        "switches": [{"name": f"s{NAME}"}],
        "links": [{"endpoints": [f"h{n}{NAME}:eth0", f"s{NAME}:p{n}"], "rate": "1Gbit"} for n in range(2)],
    }
)
TRACE, RUN, OTHER = (f"{what}{NAME}" for what in ("trace", "run", "other"))


def acts(text: str) -> set[str]:
    """Characters that do more than show."""
    return {one for one in text if not one.isprintable() and one != "\n" and unicodedata.category(one) != "Zs"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace, a topology and two runs with such names."""
    found = tmp_path_factory.mktemp("names")
    (found / TRACE).mkdir()
    for rank in range(2):
        nodes = [compute(0, duration_micros=1), collective(1), collective(2)]
        for node in nodes:
            node.name = f"{node.name}{NAME}"
        write(found / TRACE / f"{NAME}.{rank}.et", nodes)
    (found / "t.yaml").write_text(TOPOLOGY)
    for run in (RUN, OTHER):
        finished = charkha(
            *("run", TRACE, "--topology", "t.yaml", "--iterations", 2, "--agents", 1, "--out", run), cwd=found
        )
        assert finished.code == 0, finished.stderr
        assert acts(finished.stdout + finished.stderr + "\n".join(finished.announced).replace("\n", "")) == set()
        assert r"n\u202ek\x1b[31m\x07" in finished.stdout
    return found


@pytest.mark.parametrize(
    "command",
    [
        ("trace", "view", TRACE, "--out", f"v{NAME}.html"),
        ("plan", TRACE, "--topology", "t.yaml"),
        ("run", TRACE, "--topology", "t.yaml", "--print-spec"),
        ("lab", "up", "t.yaml"),
        ("runs", "list", "."),
        ("runs", "show", RUN),
        ("report", RUN),
        ("runs", "export", RUN, "--to", "perfetto", "--out", f"p{NAME}"),
        ("compare", RUN, OTHER),
        ("compare", RUN, OTHER, "--markdown"),
        ("run", NAME),
    ],
    ids=lambda command: ascii(" ".join(command[:2])),
)
def test_no_command_prints_what_acts(folder: Path, command: tuple[str, ...]) -> None:
    if command[0] == "lab" and os.geteuid() != 0:
        pytest.skip("needs root: without it a lab is refused before its topology is read")
    finished = charkha(*command, cwd=folder)
    assert acts(finished.stdout) == set()
    assert acts(finished.stderr) == set()
    assert "u202e" in (finished.stdout + finished.stderr).lower()


def test_no_page_holds_what_acts(folder: Path) -> None:
    pages = [one.read_text() for one in folder.rglob("*.html")]
    assert pages
    assert all(acts(re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)) == set() for page in pages)
