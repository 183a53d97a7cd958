"""What Kubernetes says of pods, and a kubectl that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.annexes.launch.kubernetes.kubectl import Kubectl, Pod
from emulator.errors import HostError


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
