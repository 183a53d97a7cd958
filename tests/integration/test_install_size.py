"""What an installation weighs, by the records of the installed packages: docs/install.md is right about it."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.command import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {name: needs for name, needs in PROJECT["optional-dependencies"].items() if name != "dev"}
PAGE = (ROOT / "docs" / "install.md").read_text()
DOCUMENTED_MB = {name: int(size) for name, size in re.findall(r"^\| `?(\w+)`? \| (\d+) \|", PAGE, re.MULTILINE)}


def weights_mb(requirements: Iterable[str]) -> Mapping[str, float]:
    """The weight of every distribution that these requirements need, without compiled modules."""
    found: dict[str, float] = {}
    waiting = [Requirement(one) for one in requirements]
    while waiting:
        needed = waiting.pop()
        name = canonicalize_name(needed.name)
        if name in found or not applies(needed):
            continue
        distribution = metadata.distribution(name)
        files = distribution.files or ()
        found[name] = sum(file.size or 0 for file in files if file.suffix != ".pyc") / 1e6
        waiting += [Requirement(one) for one in distribution.requires or ()]
    return found


def names(requirements: Iterable[str]) -> list[str]:
    return [Requirement(one).name for one in requirements]


def is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def applies(needed: Requirement) -> bool:
    """Whether it is needed here; extras of dependencies are not."""
    return needed.marker is None or needed.marker.evaluate({"extra": ""})


DEFAULT_MB = weights_mb(PROJECT["dependencies"])


def test_nothing_heavy_slips_into_the_default_installation() -> None:
    assert sum(DEFAULT_MB.values()) < 300, sorted(DEFAULT_MB.items(), key=lambda one: -one[1])[:6]


@pytest.mark.parametrize("name", ["pyarrow", "numpy", "grpcio"])
def test_the_heavy_packages_weigh_what_the_page_states(name: str) -> None:
    assert DEFAULT_MB[name] == pytest.approx(DOCUMENTED_MB[name], rel=0.3)


@pytest.mark.parametrize("extra", [name for name in EXTRAS if name != "verbs"])  # built for the host's rdma-core
def test_an_extra_weighs_what_the_page_states(extra: str) -> None:
    missing = [name for name in map(canonicalize_name, names(EXTRAS[extra])) if not is_installed(name)]
    if missing:
        pytest.skip(f"not installed: pip install {' '.join(missing)}")
    added = sum(mb for name, mb in weights_mb(EXTRAS[extra]).items() if name not in DEFAULT_MB)
    assert added == pytest.approx(DOCUMENTED_MB[extra], rel=0.3, abs=2)


@pytest.mark.parametrize("name", ["scapy", "scipy", "vl-convert-python", "duckdb", "zstandard"])
def test_a_default_installation_does_without(name: str) -> None:
    assert name not in DEFAULT_MB
