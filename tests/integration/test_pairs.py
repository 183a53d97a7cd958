"""`charkha bench pairs` over loopback: every pair is measured, and the run can be repeated from its spec."""

import json
from pathlib import Path

from tests.support.command import charkha, succeed


def test_every_pair_of_ranks_has_a_bandwidth(tmp_path: Path) -> None:
    table = succeed(
        "bench", "pairs", "-n", 3, "-b", "64K", "--iterations", 2, "--json", "--out", "run", cwd=tmp_path
    ).document
    assert {(pair["source"], pair["destination"]) for pair in table["pairs"]} == {
        (f"rank {one}", f"rank {other}") for one in range(3) for other in range(3) if one != other
    }
    assert all(pair["bits_per_s"] > 0 for pair in table["pairs"])
    assert (table["transfers"], table["size_bytes"], table["is_one_host"]) == (12, 65_536, True)
    again = charkha("run", "--again", "run", "--out", "again", "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["transfers"] == 12


def test_the_spec_has_what_was_asked_for(tmp_path: Path) -> None:
    printed = charkha("bench", "pairs", "-n", 5, "-b", "1M", "--rounds", 2, "--print-spec", cwd=tmp_path)
    assert "pair_sweep:" in printed.stdout
    (tmp_path / "spec.yaml").write_text(printed.stdout)
    played = succeed("run", "-f", "spec.yaml", "--json", "--out", "run", "--no-report", cwd=tmp_path)
    assert len(json.loads(played.stdout)["pairs"]) == 10
