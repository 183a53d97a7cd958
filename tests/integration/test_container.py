"""The Containerfile: builds where a builder exists; otherwise its instructions are checked against the project."""

import io
import shutil
import subprocess
import tomllib

import pytest
from dockerfile_parse import DockerfileParser

from tests.support.command import ROOT

CONTAINERFILE = ROOT / "Containerfile"


def builder() -> str | None:
    """A command that builds images here, or None."""
    for name in ("podman", "docker"):
        if shutil.which(name) and not subprocess.run((name, "info"), capture_output=True, check=False).returncode:
            return name
    return None


def test_the_instructions_fit_the_project() -> None:
    parser = DockerfileParser(fileobj=io.BytesIO(CONTAINERFILE.read_bytes()))
    bases = {image for image in parser.parent_images if image != "build"}  # `build` is a stage
    assert {image.partition(":")[2] not in ("", "latest") for image in bases} == {True}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entries = [one["value"] for one in parser.structure if one["instruction"] == "ENTRYPOINT"]
    assert entries == ['["charkha"]'] * 2
    assert "charkha" in project["scripts"]
    runs = [one["value"] for one in parser.structure if one["instruction"] == "RUN"]
    installs = [one for one in runs if "apt-get install" in one]
    assert installs
    assert all("--no-install-recommends" in one and "rm -rf /var/lib/apt/lists" in one for one in installs)
    installed = [one.split()[-1] for one in runs if "/pip " in one]
    assert installed == ["/source/packaging/agent", "/source"]


def test_what_the_image_needs_is_not_left_out_of_the_build() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    needed = {"emulator", "agents", "charkha", "docs", "lab", "packaging", "topologies", "pyproject.toml", "README.md"}
    assert not needed & set(ignored)


@pytest.mark.skipif(builder() is None, reason="neither podman nor docker can build here")
@pytest.mark.parametrize("target", ["", "agent"])
def test_the_image_builds_and_prints_its_help(target: str) -> None:
    command = builder()
    assert command is not None
    stage = ("--target", target) if target else ()
    subprocess.run((command, "build", *stage, "-f", CONTAINERFILE, "-t", "charkha-test", ROOT), check=True, timeout=600)
    shown = subprocess.run((command, "run", "--rm", "charkha-test"), capture_output=True, text=True, check=True)
    assert "usage: charkha" in shown.stdout
