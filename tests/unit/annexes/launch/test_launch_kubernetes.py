"""`charkha agent launch`: what is printed, and what is refused before anything starts."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import pytest
import yaml

from emulator.annexes.launch import launch_kubernetes
from emulator.annexes.launch.kubectl import Kubectl, Pod
from emulator.annexes.launch.manifests import ClusterPlacement
from emulator.cli.main import main
from emulator.errors import RunError

PLACEMENT = ClusterPlacement(name="charkha-1", image="charkha", nodes=2, secret="charkha-1", has_identities=False)


def pod(name: str, state: str = "Running", *, has_ended: bool = False) -> Pod:
    return Pod(f"charkha-1-{name}", state == "Running", has_ended, state)


CONTROLLER, FIRST, SECOND = pod("controller-0-x"), pod("agent-0-x"), pod("agent-1-x")


class Scripted:
    """A kubectl that sees pods come up, and remembers what it was told."""

    def __init__(self, *looks: Sequence[Pod], refuses: str = "") -> None:
        self._looks: Iterator[Sequence[Pod]] = iter(looks)
        self._refuses = refuses
        self.said: list[tuple[str, ...]] = []
        self.stdin = b""

    def pods(self, _: Mapping[str, str]) -> Sequence[Pod]:
        return next(self._looks)

    def say(self, *arguments: str, stdin: bytes = b"") -> bytes:
        self.said.append(arguments)
        self.stdin += stdin
        if arguments[0] == self._refuses:
            raise RunError("refused")
        return b""

    def as_kubectl(self) -> Kubectl:
        return cast(Kubectl, self)


def await_pods(*looks: Sequence[Pod], said: list[str], timeout_s: float = 60) -> Pod:
    kubectl = Scripted(*looks).as_kubectl()
    return launch_kubernetes.await_pods(kubectl, PLACEMENT, timeout_s=timeout_s, report=said.append, look_s=0)


def test_a_run_begins_when_all_pods_run() -> None:
    said: list[str] = []
    pulling = pod("agent-1-x", "ContainerCreating")
    found = await_pods([], [FIRST, pulling], [FIRST, pulling, CONTROLLER], [FIRST, SECOND, CONTROLLER], said=said)
    assert found is CONTROLLER
    waits = "; charkha-1-agent-1-x: ContainerCreating"
    assert said == ["pods: 0 of 3 run", f"pods: 1 of 3 run{waits}", f"pods: 2 of 3 run{waits}"]


def test_a_pod_that_ends_early_is_named() -> None:
    ended = pod("agent-0-x", "Error", has_ended=True)
    with pytest.raises(RunError, match="pod charkha-1-agent-0-x ended before the run: Error"):
        await_pods([CONTROLLER, ended, SECOND], said=[])


def test_what_keeps_a_pod_from_running_is_said_in_the_end() -> None:
    waiting = pod("agent-0-x", "Unschedulable: no room")
    with pytest.raises(RunError, match=r"after 0 s not all pods run .*charkha-1-agent-0-x: Unschedulable: no room"):
        await_pods([CONTROLLER, waiting, SECOND], said=[], timeout_s=0)


@pytest.mark.parametrize("refuses", ["", "create", "delete"])
def test_objects_are_removed_whatever_happens(refuses: str) -> None:
    kubectl = Scripted(refuses=refuses)

    def play() -> None:
        with launch_kubernetes.made(kubectl.as_kubectl(), PLACEMENT, {"token": "a-secret"}):
            raise KeyboardInterrupt

    with pytest.raises(RunError if refuses == "create" else KeyboardInterrupt):
        play()
    assert [one[0] for one in kubectl.said] == ["create", "delete"]
    assert "--selector=app.kubernetes.io/name=charkha,app.kubernetes.io/instance=charkha-1" in kubectl.said[1]
    assert b"a-secret" in kubectl.stdin
    assert "a-secret" not in str(kubectl.said)


def test_a_secret_of_the_user_is_not_made() -> None:
    kubectl = Scripted()
    with launch_kubernetes.made(kubectl.as_kubectl(), PLACEMENT, None):
        assert b"kind: Secret" not in kubectl.stdin


PODS = "agent launch kubernetes -n 2 --image charkha:1"


@pytest.mark.parametrize(
    ("option", "make"), [("", "charkha agent certs issue"), ("--insecure", "openssl rand -hex 24")]
)
def test_manifests_are_printed_with_a_way_to_make_the_secret(
    option: str, make: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = f"{PODS} --interface net1 --network lab/rail0 --name t {option} --print -- run x --json"
    assert main(shlex.split(given)) == 0
    shown = capsys.readouterr().out
    documents = list(yaml.safe_load_all(shown))
    assert [one["kind"] for one in documents] == ["Service", "Job", "Job"]
    (controller,) = documents[1]["spec"]["template"]["spec"]["containers"]
    assert controller["args"][:5] == ["run", "x", "--json", "--listen", "0.0.0.0:4790"]
    assert make in shown
    assert "kubectl create secret generic t --from-file" in shown
