"""What a plan says beside what a lab measures."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from tests.support.command import charkha, succeed
from tests.support.full import measures
from tests.support.star_lab import sent_bytes

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow, measures]
LEAF_SPINE = (Path(__file__).parents[2] / "topologies" / "leaf-spine-2x2.yaml").read_text()
PINS = "".join(
    f"  - {{at: leaf{1 - leaf}, to: h{4 * leaf + host}, via: spine{host % 2}}}\n"
    for leaf in (0, 1)
    for host in range(4)
)
PINNED = LEAF_SPINE.replace("ecmp: {seed: 1}", f"routes:\n{PINS}")
OTHERWISE = LEAF_SPINE.replace("ecmp: {seed: 1}", "ecmp: {seed: 3}")
WHAT = ("all_to_all", "-n", 8, "-b", "4M", "--algorithm", "all_to_all=pairwise", "--topology", "lab.yaml")


@pytest.fixture
def raised(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A lab of a topology's text: its folder and its id."""
    (tmp_path / "lab.yaml").write_text(request.param)
    one = f"test-{secrets.token_hex(4)}"
    try:
        succeed("lab", "up", "lab.yaml", "--id", one, "--force", cwd=tmp_path)
        yield tmp_path, one
    finally:
        charkha("lab", "down", one, cwd=tmp_path)


def planned(folder: Path, *options: object) -> dict[str, Any]:
    return succeed("plan", "--collective", *WHAT, *options, "--json", cwd=folder).document


@pytest.mark.parametrize(
    "raised", [PINNED, LEAF_SPINE, OTHERWISE], indirect=True, ids=["pinned", "hashed", "otherwise"]
)
def test_steps_take_what_the_plan_says_on_the_links_that_it_says(raised: tuple[Path, str]) -> None:
    folder, lab = raised
    expected_ns = planned(folder)["operations"][0]["ideal_ns"]["fair_steps"]
    play = ("bench", *WHAT, "-e", "4M", "--iterations", 3, "--lab", lab, "--out", "run")
    succeed(*play, cwd=folder)

    run = read_run(folder / "run")
    spans: dict[int, list[tuple[int, int]]] = {}
    for row in run.table(RunTable.ITERATIONS).to_pylist():
        spans.setdefault(row["iteration"], []).append((row["start_ns"], row["end_ns"]))
    measured_ns = median(
        max(end for _, end in one) - min(start for start, _ in one) for number, one in spans.items() if number >= 0
    )
    print(f"planned {expected_ns / 1e9:.3f} s, measured {measured_ns / 1e9:.3f} s")
    assert measured_ns == pytest.approx(expected_ns, rel=0.1)

    sent = sent_bytes(run)
    links = [
        link["link"] for link in planned(folder)["links"] if link["link"].split(":")[0].startswith(("leaf", "spine"))
    ]
    (folder / "loads.json").write_text(json.dumps({link: sent[link.split(" > ")[0]] for link in links}))
    fed = planned(folder, "--link-loads", "loads.json")
    if fed["observed_difference"] is not None:  # nothing is chosen where all is pinned
        assert fed["observed_difference"] < 0.01
    assert fed["operations"][0]["ideal_ns"]["fair_steps"] == expected_ns
