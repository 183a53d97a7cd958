"""A run on a cluster: make objects, wait for pods, send files, run the controller, fetch results, remove all.

The controller runs in a pod: clocks of agents are known the better the shorter the way to it is, and a user's machine
need not be reachable from pods. The command here is its terminal: when its stdin ends, for whatever reason, the
controller is interrupted, and agents stop sending.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from emulator.annexes.launch.kubectl import Kubectl, Pod, SentFile, in_words, pack, unpack
from emulator.annexes.launch.manifests import (
    GRACE_S,
    WORK,
    ClusterPlacement,
    labels,
    manifests,
    secret,
    to_yaml,
)
from emulator.errors import RunError
from emulator.units import format_size

INTERRUPT_S = 2.0
"""How long an interrupted controller may take to end; then its pod is removed."""
LOOK_S = 1.0
"""Between two looks at pods that are not ready yet."""
_MARK = ".sent"
"""Results are the files that are younger than this one."""
_WATCHED = 'exec 3<&0 </dev/null; (cat <&3 >/dev/null; kill -INT $$) >/dev/null 2>&1 & exec 3<&-; exec charkha "$@"'
"""Shell: `charkha`, interrupted when stdin ends."""
Report = Callable[[str], None]


def play(
    kubectl: Kubectl,
    placement: ClusterPlacement,
    command: Sequence[str],
    *,
    sent: Sequence[SentFile],
    secrets: Mapping[str, str] | None,
    folder: Path,
    join_timeout_s: float,
    report: Report,
) -> int:
    """Run `charkha COMMAND` with agents on the nodes of a cluster; returns its exit code.

    Args:
        kubectl: of the cluster.
        placement: of agents and controller.
        command: for the controller's pod.
        sent: files that it needs.
        secrets: content of the Secret; None if it is the user's own.
        folder: where results go.
        join_timeout_s: how long to wait for pods.
        report: called with a line of text when something happens.

    Raises:
        HostError: there is no kubectl.
        RunError: the cluster refuses something, or pods do not run in time. Nothing is left in the cluster.
        KeyboardInterrupt: results of the interrupted run were fetched, if there were any in time.
    """
    with made(kubectl, placement, secrets):
        pod = await_pods(kubectl, placement, timeout_s=join_timeout_s, report=report)
        report(f"sends {format_size(sum(one.size_bytes for one in sent))} to pod {pod.name}")
        send(kubectl, pod, sent)
        try:
            return run(kubectl, pod, command)
        finally:
            files = fetch(kubectl, pod, folder)
            report(f"fetched {len(files)} files from pod {pod.name}")


@contextmanager
def made(kubectl: Kubectl, placement: ClusterPlacement, secrets: Mapping[str, str] | None) -> Iterator[None]:
    """The objects of a launch, removed at the end whatever happens; `secrets`: None if the Secret is the user's own.

    Raises:
        HostError: there is no kubectl.
        RunError: the cluster refuses one.
    """
    own = [] if secrets is None else [secret(placement, secrets)]
    try:
        # `apply` would write a copy of every object, the Secret too, into an annotation of it.
        kubectl.say("create", "--filename=-", stdin=to_yaml([*own, *manifests(placement)]).encode())
        yield
    finally:
        remove(kubectl, placement)


def remove(kubectl: Kubectl, placement: ClusterPlacement) -> None:
    """Remove all objects of a launch. Pods are named, too: after their Job alone they would go only some time later."""
    selector = in_words(labels(placement))
    with suppress(RunError):  # what ended the run is the better reason; pods have a deadline
        kubectl.say(
            *("delete", "jobs,pods,services,secrets", f"--selector={selector}"),
            *("--ignore-not-found", "--wait=false", f"--grace-period={GRACE_S}"),
        )


def await_pods(kubectl: Kubectl, placement: ClusterPlacement, *, timeout_s: float, report: Report) -> Pod:
    """Wait until all pods run; returns the controller's. Says what it waits for when that changes.

    Raises:
        RunError: a pod ended, or they do not run in time.
    """
    deadline, said = time.monotonic() + timeout_s, ""
    while True:
        pods = kubectl.pods(labels(placement))
        if ended := [one for one in pods if one.has_ended]:
            raise RunError(f"pod {ended[0].name} ended before the run: {ended[0].state}")
        waiting = [one for one in pods if not one.is_ready]
        if not waiting and len(pods) == placement.nodes + 1:
            return next(one for one in pods if one.name.startswith(f"{placement.name}-controller"))
        line = f"pods: {len(pods) - len(waiting)} of {placement.nodes + 1} run" + "".join(
            f"; {one.name}: {one.state}" for one in waiting[:1]
        )
        if time.monotonic() > deadline:
            raise RunError(f"after {timeout_s:g} s not all pods run ({line}): kubectl describe pod shows more")
        if line != said:
            report(said := line)
        time.sleep(LOOK_S)


def send(kubectl: Kubectl, pod: Pod, sent: Sequence[SentFile]) -> None:
    """Write files into the working directory of the controller's pod.

    Raises:
        RunError: they did not arrive.
    """
    script = f"tar --extract --file=- --directory={WORK} && touch {WORK}/{_MARK} && sleep 0.01"
    command = kubectl.command("exec", "--stdin", pod.name, "--", "sh", "-c", script)
    with _piped(command, "files could not be sent", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin:
            pack(sent, process.stdin)


def run(kubectl: Kubectl, pod: Pod, command: Sequence[str]) -> int:
    """Run `charkha COMMAND` in the controller's pod, on stdout and stderr of this process; returns its exit code."""
    words = kubectl.command("exec", "--stdin", pod.name, "--", "sh", "-c", _WATCHED, "charkha", *command)
    with subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdin is not None
        try:
            return process.wait()
        except BaseException:  # Ctrl-C: the controller is interrupted, says so, and closes its run folder
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(INTERRUPT_S)
            process.kill()
            raise


def fetch(kubectl: Kubectl, pod: Pod, folder: Path) -> list[Path]:
    """Write what the run wrote into `folder`; returns the files.

    Raises:
        RunError: the files did not come back whole.
    """
    script = f"tar --create --file=- --directory={WORK} --newer-mtime={WORK}/{_MARK} --exclude={_MARK} ."
    command = kubectl.command("exec", pod.name, "--", "sh", "-c", script)
    with _piped(command, "results could not be fetched", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        return unpack(process.stdout, folder)


@contextmanager
def _piped(
    command: Sequence[str], problem: str, *, stdin: int = subprocess.DEVNULL, stdout: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, start_new_session=True)
    with process:
        try:
            yield process
            assert process.stderr is not None
            said = process.stderr.read().decode(errors="replace").strip().splitlines()
            if process.wait():
                raise RunError(f"{problem}: {said[-1] if said else f'exit code {process.returncode}'}")
        finally:
            process.kill()
