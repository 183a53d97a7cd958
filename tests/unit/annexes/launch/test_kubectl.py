"""What Kubernetes says of pods, and a kubectl that is not there."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from emulator.annexes.launch.kubectl import Kubectl, Pod, pack, sent_with, unpack
from emulator.errors import HostError, InputError, RunError


def pod(**status: Any) -> Pod:
    return Pod.of({"metadata": {"name": "p"}, "status": status})


def waiting(reason: str, message: str) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient cpu.",
}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({"conditions": [UNSCHEDULABLE]}, "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu."),
        ({"containerStatuses": [waiting("ImagePullBackOff", "no such image")]}, "ImagePullBackOff: no such image"),
        (
            {"initContainerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}], "phase": "Running"},
            "Running",
        ),
        ({}, "Pending"),
    ],
)
def test_a_pod_that_is_not_ready_says_why(status: dict[str, Any], state: str) -> None:
    found = pod(**status)
    assert (found.is_ready, found.has_ended, found.state) == (False, False, state)


def test_a_pod_is_ready_when_its_containers_run() -> None:
    assert pod(phase="Running", conditions=[{"type": "Ready", "status": "True"}]).is_ready


def test_a_pod_that_has_ended_says_why() -> None:
    ended = {"state": {"terminated": {"reason": "OOMKilled"}}}
    found = pod(phase="Failed", containerStatuses=[ended])
    assert (found.has_ended, found.state) == (True, "OOMKilled")


def test_without_kubectl_there_is_still_print() -> None:
    with pytest.raises(HostError, match=r"kubectl is not installed: .* --print"):
        Kubectl(program="no-such-kubectl").say("get", "pods")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    (folder / "traces" / "x").mkdir(parents=True)
    for name in ("traces/x/t.0.et", "traces/x/t.1.et", "traces/p.0.et", "traces/p.1.et.zst", "rack.yaml"):
        (folder / name).write_text(name)
    (tmp_path / "rules.yaml").write_text("rules")
    (tmp_path / "q.0.et").write_text("0")
    (tmp_path / "q.1.et").write_text("1")
    return folder


def test_paths_below_the_working_directory_stay_as_they_are(folder: Path) -> None:
    given = ["traces/x", "--topology", "rack.yaml", "--iterations", "3", "--seed=1"]
    arguments, sent = sent_with(given, folder)
    assert arguments == given
    assert [str(one.there) for one in sent] == ["traces/x", "rack.yaml"]


def test_others_get_a_place_of_their_own(folder: Path) -> None:
    arguments, sent = sent_with([str(folder.parent / "q"), "--expect=../rules.yaml", "-f", "none.yaml"], folder)
    assert arguments == ["inputs/0/q", "--expect=inputs/2/rules.yaml", "-f", "none.yaml"]
    assert [str(one.there) for one in sent] == ["inputs/0/q.0.et", "inputs/0/q.1.et", "inputs/2/rules.yaml"]


def test_a_prefix_stands_for_the_files_of_all_ranks(folder: Path) -> None:
    arguments, sent = sent_with(["traces/p"], folder)
    assert arguments == ["traces/p"]
    assert [str(one.there) for one in sent] == ["traces/p.0.et", "traces/p.1.et.zst"]


def test_what_no_argument_names_is_sent_on_request(folder: Path) -> None:
    assert [str(one.there) for one in sent_with([], folder, [Path("traces")])[1]] == ["traces"]
    with pytest.raises(InputError, match="--send none: there is no such file"):
        sent_with([], folder, [Path("none")])


def test_files_arrive_as_they_were(folder: Path, tmp_path: Path) -> None:
    (folder / "link.yaml").symlink_to("rack.yaml")
    sent = sent_with(["traces/x", "link.yaml"], folder)[1]
    assert [one.size_bytes for one in sent] == [2 * len("traces/x/t.0.et"), len("rack.yaml")]
    stream = io.BytesIO()
    pack(sent, stream)
    stream.seek(0)
    there = tmp_path / "there"
    assert sorted(unpack(stream, there)) == [there / "link.yaml", *(there / f"traces/x/t.{n}.et" for n in (0, 1))]
    assert (there / "link.yaml").read_text() == "rack.yaml"
    assert not (there / "link.yaml").is_symlink()


@pytest.mark.parametrize("name", ["../outside", "/tmp/charkha-outside"])
def test_results_stay_below_the_folder(tmp_path: Path, name: str) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name))
    stream.seek(0)
    folder = tmp_path / "folder"
    if name.startswith("/"):
        assert unpack(stream, folder) == [folder / "tmp" / "charkha-outside"]
    else:
        with pytest.raises(RunError, match="did not come back whole"):
            unpack(stream, folder)
    assert not (tmp_path / "outside").exists()
    assert not Path("/tmp/charkha-outside").exists()


def test_results_that_are_cut_off_are_an_error(tmp_path: Path, folder: Path) -> None:
    stream = io.BytesIO()
    pack(sent_with(["rack.yaml"], folder)[1], stream)
    with pytest.raises(RunError, match="did not come back whole"):
        unpack(io.BytesIO(stream.getvalue()[:520]), tmp_path / "there")


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (r"printf 'so\nno \033[2J\n' >&2; exit 3", r"kubectl get: no \x1b[2J"),
        ("exit 3", "kubectl get: exit code 3"),
    ],
)
def test_what_failed_is_told_by_its_last_line_or_else_its_exit_code(tmp_path: Path, does: str, said: str) -> None:
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o700)
    with pytest.raises(RunError) as caught:
        Kubectl(program=str(program)).say("get", "pods")
    assert str(caught.value) == said
