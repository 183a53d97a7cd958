"""`charkha agent launch kubernetes`: from options and a command to a placement, and to what is printed or played.

A run there makes objects, waits for pods, sends files, runs the controller, fetches results, and removes all.

The controller runs in a pod: clocks of agents are known the better the shorter the way to it is, and a user's machine
need not be reachable from pods. The command here is its terminal: when its stdin ends, for whatever reason, the
controller is interrupted, and agents stop sending.
"""

from __future__ import annotations

import argparse
import math
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.annexes.launch.engine import failed, issue_identities
from emulator.annexes.launch.kubectl import Kubectl, Pod, SentFile, in_words, pack, sent_with, unpack
from emulator.annexes.launch.launch_here import EngineOptions
from emulator.annexes.launch.manifests import (
    CONTROL_PORT,
    DEFAULT_RESOURCES,
    GRACE_S,
    TOKEN,
    WORK,
    ClusterPlacement,
    labels,
    manifests,
    secret,
    to_yaml,
)
from emulator.cli.parser import argument, at_least
from emulator.errors import InputError, RunError
from emulator.units import format_size

if TYPE_CHECKING:
    from emulator.cli.parser import Parser

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


def await_pods(
    kubectl: Kubectl, placement: ClusterPlacement, *, timeout_s: float, report: Report, look_s: float = LOOK_S
) -> Pod:
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
        time.sleep(look_s)


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
            said = process.stderr.read().decode(errors="replace")
            if process.wait():
                raise failed(problem, said, process.returncode)
        finally:
            process.kill()


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
