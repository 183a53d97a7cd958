"""`charkha agent launch kubernetes`: from settings and a command to a placement, and to what is printed or played."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from emulator.annexes.launch.identities import issue_identities
from emulator.annexes.launch.kubernetes.cluster import play
from emulator.annexes.launch.kubernetes.files import sent_with
from emulator.annexes.launch.kubernetes.kubectl import Kubectl
from emulator.annexes.launch.kubernetes.manifests import CONTROL_PORT, TOKEN, ClusterPlacement, manifests, to_yaml
from emulator.errors import InputError

CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Settings:
    """Of a launch beside its placement.

    Attributes:
        kubectl: options that choose cluster and namespace.
        send: files and folders that no argument names.
        own_secret: the Secret is the user's.
        join_timeout_s: how long to wait for pods.
    """

    kubectl: Sequence[str] = ()
    send: Sequence[Path] = ()
    own_secret: bool = False
    join_timeout_s: float = 300.0


def new_name() -> str:
    """A name that no other launch has; it begins with a letter, as names of Services must."""
    return f"charkha-{secrets.token_hex(4)}"


def check(placement: ClusterPlacement) -> None:
    """Refuse what cannot be played.

    Raises:
        InputError: agents would share the interface under test with control, or have none.
    """
    if not placement.interfaces:
        raise InputError(
            "agents on several nodes need --interface NAME: a port of the device under test. Pods see secondary "
            "networks (--network NAME) as net1, net2 …, and the interfaces of their node with --host-network"
        )
    if not placement.networks and not placement.host_network:
        raise InputError(
            "a pod has only the interface of the cluster's network, which control uses, and control must not cross the "
            "device under test: give --network NAME, or --host-network"
        )


def printed(placement: ClusterPlacement, command: Sequence[str]) -> str:
    """YAML for `kubectl apply -f -`: the controller begins by itself. A comment says how to make the Secret."""
    whole = replace(placement, command=_complete(placement, command))
    return to_yaml(manifests(whole), _how_to_make_secret(placement))


def launched(
    placement: ClusterPlacement, command: Sequence[str], settings: Settings, folder: Path, report: Callable[[str], None]
) -> int:
    """Play a command on a cluster; returns its exit code. See `play` for what it raises."""
    words, sent = sent_with(command, folder, settings.send)
    return play(
        Kubectl(settings.kubectl),
        placement,
        _complete(placement, words),
        sent=sent,
        secrets=None if settings.own_secret else _secrets(placement),
        folder=folder,
        join_timeout_s=settings.join_timeout_s,
        report=report,
    )


def _complete(placement: ClusterPlacement, command: Sequence[str]) -> list[str]:
    return [*command, "--listen", f"0.0.0.0:{CONTROL_PORT}", *placement.security]


def _secrets(placement: ClusterPlacement) -> Mapping[str, str]:
    """A token, or identities; valid for this launch only."""
    if not placement.has_identities:
        return {TOKEN: secrets.token_urlsafe(24)}
    lasting_s = placement.timeout_s
    return issue_identities(placement.agents, controller=CONTROLLER, addresses=[placement.name], lasting_s=lasting_s)


def _how_to_make_secret(placement: ClusterPlacement) -> str:
    make = f"kubectl create secret generic {placement.secret}"
    if not placement.has_identities:
        return f"Needs a Secret: openssl rand -hex 24 | {make} --from-file={TOKEN}=/dev/stdin"
    names = [CONTROLLER, *placement.agents]
    files = " ".join(f"--from-file={name}=authority/{name}.pem" for name in names)
    issue = "charkha agent certs issue authority"
    return (
        f"Needs a Secret with identities:\n  charkha agent certs init authority\n"
        f"  {issue} {CONTROLLER} --role controller --address {placement.name}\n"
        f"  {issue} NAME --role agent     for {', '.join(placement.agents)}\n"
        f"  {make} {files}"
    )
