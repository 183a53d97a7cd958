"""`kubectl`, and what it says."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from emulator.errors import HostError, RunError

_QUICK_S = 60.0
"""Longest time of a request to a cluster that answers."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Calls of `kubectl`.

    Attributes:
        options: that choose cluster and namespace.
        program: what is started.
    """

    options: Sequence[str] = ()
    program: str = field(default="kubectl")

    def command(self, *arguments: str) -> list[str]:
        """A command line.

        Raises:
            HostError: there is no kubectl.
        """
        if shutil.which(self.program) is None:
            raise HostError("kubectl is not installed: install it, or use --print and apply its output elsewhere")
        return [self.program, *self.options, *arguments]

    def say(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What a quick command writes to stdout.

        Args:
            arguments: after `kubectl`.
            stdin: what it reads; secrets go there, never into arguments.

        Raises:
            HostError: there is no kubectl.
            RunError: it failed, or did not end in time.
        """
        title = f"kubectl {arguments[0]}"
        try:
            # In a session of its own: Ctrl-C is for charkha, which then still needs kubectl.
            ended = subprocess.run(
                self.command(*arguments), input=stdin, capture_output=True, timeout=_QUICK_S, start_new_session=True
            )
        except subprocess.TimeoutExpired:
            raise RunError(f"{title} did not end within {_QUICK_S:g} s: does the cluster answer?") from None
        if ended.returncode:
            said = ended.stderr.decode(errors="replace").strip().splitlines()
            raise RunError(f"{title}: {said[-1] if said else f'exit code {ended.returncode}'}")
        return ended.stdout

    def pods(self, selector: Mapping[str, str]) -> list[Pod]:
        """The pods that have these labels.

        Raises:
            RunError: kubectl failed.
        """
        found = json.loads(self.say("get", "pods", "--output=json", f"--selector={in_words(selector)}"))
        return [Pod.of(one) for one in found["items"]]


@dataclass(frozen=True, slots=True)
class Pod:
    """What is known of a pod.

    Attributes:
        name: of the pod.
        is_ready: all its containers run.
        has_ended: none of them runs any more.
        state: why it is not ready, in the words of Kubernetes.
    """

    name: str
    is_ready: bool
    has_ended: bool
    state: str

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Pod:
        """From what the API server says."""
        status = plain.get("status", {})
        phase = status.get("phase", "Pending")
        conditions = {one["type"]: one for one in status.get("conditions", ())}
        is_ready = conditions.get("Ready", {}).get("status") == "True"
        return cls(plain["metadata"]["name"], is_ready, phase in ("Succeeded", "Failed"), _state(status, conditions))


def in_words(selector: Mapping[str, str]) -> str:
    """A selector of labels, as kubectl takes it."""
    return ",".join(f"{name}={value}" for name, value in selector.items())


def _state(status: Mapping[str, Any], conditions: Mapping[str, Mapping[str, Any]]) -> str:
    """The most telling reason: of a container that waits or has ended, of the scheduler, else the phase."""
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        state = container.get("state", {})
        for kind in ("waiting", "terminated"):
            if (found := state.get(kind)) and found.get("reason") != "Completed":
                return _joined(found.get("reason"), found.get("message"))
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return _joined(scheduled.get("reason"), scheduled.get("message"))
    return _joined(status.get("phase", "Pending"), status.get("message"))


def _joined(reason: str | None, message: str | None) -> str:
    return ": ".join(one for one in (reason, message) if one)
