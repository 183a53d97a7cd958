"""`charkha probe`: what it refuses before it opens a socket."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import refused

HOSTS = "hosts:\n- {name: h0, address: 198.18.0.1}\n- {name: h1, address: 198.18.0.2}\n"


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    """Two hosts without a lab."""
    path = tmp_path / "t.yaml"
    path.write_text(HOSTS)
    return path


@pytest.mark.parametrize(
    ("source", "destination", "problem"),
    [
        ("h0", "h9", "there is no host 'h9'; hosts: h0, h1"),
        ("h0:eth7", "h1", "host h0 has no interface 'eth7'"),
        ("h0", "h0", "name two interfaces"),
    ],
)
def test_only_two_interfaces_of_the_topology_are_probed(
    topology: Path, source: str, destination: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("probe", "--topology", topology, "--from", source, "--to", destination)
    assert problem in refused(*words, capsys=capsys)


@pytest.mark.parametrize("rate", ["0", "-1", "1001", "fast", "nan"])
def test_a_rate_out_of_range_is_refused(topology: Path, rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("probe", "--topology", topology, "--from", "h0", "--to", "h1", f"--rate={rate}")
    assert "argument --rate" in refused(*words, capsys=capsys)


def test_both_ends_must_be_named(topology: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "required: --to" in refused("probe", "--topology", topology, "--from", "h0", capsys=capsys)
