"""`charkha agent launch kubernetes`: from options and a command to a placement, and to what is printed or played."""

from __future__ import annotations

import argparse
import math
import re
import secrets
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.annexes.launch.cluster import play
from emulator.annexes.launch.engine import issue_identities
from emulator.annexes.launch.kubectl import Kubectl, sent_with
from emulator.annexes.launch.launch_here import EngineOptions
from emulator.annexes.launch.manifests import (
    CONTROL_PORT,
    DEFAULT_RESOURCES,
    TOKEN,
    ClusterPlacement,
    manifests,
    to_yaml,
)
from emulator.cli.parser import argument, at_least
from emulator.errors import InputError

if TYPE_CHECKING:
    from emulator.cli.parser import Parser


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


_EXAMPLE = """example:
  charkha agent launch kubernetes -n 4 --image registry.example/charkha:1 --network lab/rail0 \\
      --interface net1 -- run traces/my-job --topology pods.yaml

Starts an agent on each of 4 nodes and the controller in its own pod, sends it the files that
the command names, brings the results back, and removes everything. docs/launch.md explains it.
"""
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?")
"""Of a Service (RFC 1035), short enough for the names of Jobs and pods made from it."""


def _add(parser: Parser) -> None:
    parser.add_argument("-n", "--nodes", metavar="N", type=at_least(2), required=True, help="agents, one per node")
    parser.add_argument("--image", required=True, help="image with `charkha`: docs/container.md")
    parser.add_argument(
        "--interface", metavar="NAME", action="append", default=[], help="port under test, as pods see it (repeatable)"
    )
    _repeated(parser, "--network", "NAME", "secondary network of agents, [NAMESPACE/]NAME[@INTERFACE] (repeatable)")
    parser.add_argument("--host-network", action="store_true", help="agents see the interfaces of their node")
    parser.add_argument(
        "--add-addresses",
        action="store_true",
        help="agents add the addresses of ranks, as root with only CAP_NET_ADMIN",
    )
    parser.add_argument(
        "--timeout", metavar="S", type=at_least(1), default=3600, help="end all pods after this time (3600 s)"
    )
    cluster = parser.add_advanced_group("cluster")
    cluster.add_argument("--context", help="kubectl context (default: the current one)")
    cluster.add_argument("--namespace", help="of all objects (default: that of the context)")
    cluster.add_argument("--pull-secret", metavar="NAME", help="Secret with the registry password")
    cluster.add_argument("--service-account", metavar="NAME", help="of all pods")
    _repeated(cluster, "--node-label", "NAME=VALUE", "only nodes with this label (repeatable)")
    _repeated(
        cluster,
        "--resource",
        "NAME=AMOUNT",
        "resource of an agent: cpu (default 1), memory (1Gi), or that of a device plugin",
    )
    cluster.add_argument("--join-timeout", metavar="S", type=at_least(1), default=300, help="wait for pods (300 s)")
    cluster.add_argument("--name", help="of all objects (default: a new one)")
    files = parser.add_advanced_group("files and secrets")
    files.add_argument(
        "--send",
        metavar="PATH",
        type=Path,
        action="append",
        default=[],
        help="send other files, not in the arguments (repeatable)",
    )
    files.add_argument("--claim", metavar="NAME", help="volume claim for the controller's working directory")
    files.add_argument("--secret", metavar="NAME", help="Secret with identities or a token (default: a new one)")
    files.add_argument("--insecure", action="store_true", help="use a token instead of certificates")


def _repeated(parser: argparse._ActionsContainer, name: str, metavar: str, text: str) -> None:
    read = argument(_pair) if "=" in metavar else str
    parser.add_argument(name, metavar=metavar, type=read, action="append", default=[], help=text)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ValueError("write NAME=VALUE")
    return name, value


def _run(args: argparse.Namespace, command: Sequence[str]) -> int:
    from emulator.cli.output import notify

    placement = _placement(args)
    check(placement)
    if args.print:
        if args.send:
            raise InputError("--send: what is printed brings no files along: put them on a volume, --claim NAME")
        print(printed(placement, command), end="")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what is in the cluster is removed either way
    return launched(placement, command, _settings(args), Path.cwd(), notify)


def _placement(args: argparse.Namespace) -> ClusterPlacement:
    name = args.name or new_name()
    if not _NAME.fullmatch(name):
        raise InputError(f"--name {name}: use up to 42 small letters, digits and hyphens, a letter first")
    return ClusterPlacement(
        name=name,
        image=args.image,
        nodes=args.nodes,
        secret=args.secret or name,
        interfaces=args.interface,
        networks=args.network,
        host_network=args.host_network,
        adds_addresses=args.add_addresses,
        resources={**DEFAULT_RESOURCES, **dict(args.resource)},
        node_labels=dict(args.node_label),
        pull_secret=args.pull_secret,
        service_account=args.service_account,
        has_identities=not args.insecure,
        claim=args.claim,
        timeout_s=math.ceil(args.timeout),
    )


def _settings(args: argparse.Namespace) -> Settings:
    chosen = {"--context": args.context, "--namespace": args.namespace}
    return Settings(
        kubectl=[word for option, value in chosen.items() if value is not None for word in (option, value)],
        send=args.send,
        own_secret=args.secret is not None,
        join_timeout_s=args.join_timeout,
    )


KUBERNETES = EngineOptions("as pods of an Indexed Job", _EXAMPLE, _add, _run)
