"""The locked requirements are what pyproject.toml asks for."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.command import ROOT

DOCUMENT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = DOCUMENT["project"]
EXTRAS = PROJECT["optional-dependencies"]
DEV = next(Requirement(one).extras for one in EXTRAS["dev"] if one.startswith("charkha["))
NEEDED: dict[str, list[str]] = {
    "ci": [*PROJECT["dependencies"], *EXTRAS["dev"][1:], *(one for extra in DEV for one in EXTRAS[extra])]
} | DOCUMENT["dependency-groups"]


@pytest.mark.parametrize("name", NEEDED)
def test_every_requirement_is_locked_in_a_version_that_fits_and_by_its_hashes(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    assert "://" not in text
    locked: dict[str, list[Requirement]] = {}
    for entry in re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", "").splitlines():
        pin, *hashes = re.split(r"\s+--hash=", entry)
        assert hashes, entry
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}\s*", one) for one in hashes)
        requirement = Requirement(pin)
        locked.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    for needed in map(Requirement, NEEDED[name]):
        versions = [str(pin.specifier).removeprefix("==") for pin in locked.get(canonicalize_name(needed.name), ())]
        assert versions, f"{needed} is not locked: lab/scripts/lock.sh"
        assert all(needed.specifier.contains(one) for one in versions), f"{needed}: lab/scripts/lock.sh"
