"""What Kubernetes is asked for: an Indexed Job of agents, a Job for the controller, a headless Service to find it.

From what is to be placed to manifests as plain values; `templates/manifests.yaml` has them. No manifest has a secret in
it: pods take token or identity from a Secret that they name. Pods meet the restricted profile of the Pod Security
Standards, but for what `host_network` and `adds_addresses` ask for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jinja2
import yaml

Manifest = dict[str, Any]

CONTROL_PORT = 4790
WORK = "/work"
"""Working directory of the controller: what is sent arrives there, run folders are written there."""
SECRETS = "/etc/charkha"
TOKEN = "token"
"""Key of the token in the Secret; identities have the keys `controller` and `agent-<index>`."""
USER = 65532
"""User and group of the processes: any but root; a number, so that Kubernetes can see that it is not root."""
GRACE_S = 1
"""From SIGTERM to SIGKILL. An agent stops sending on SIGTERM at once; nothing may send 2 s after the end."""
KEPT_S = 3600
"""Finished Jobs are removed after an hour: until then their logs can be read."""
DEFAULT_RESOURCES = {"cpu": "1", "memory": "1Gi"}
"""Of an agent, where nothing else is asked for."""


@dataclass(frozen=True, slots=True)
class ClusterPlacement:
    """Agents on the nodes of a cluster, one per node, and the controller of their run.

    Attributes:
        name: of all objects; agents are `agent-<index>`.
        image: that has `charkha`.
        nodes: number of agents.
        interfaces: under test, as pods see them.
        networks: secondary networks of agents, as `namespace/name` or `name`, or `name@interface`.
        host_network: agents see the interfaces of their node.
        adds_addresses: agents may add addresses to interfaces, and therefore are root with CAP_NET_ADMIN.
        resources: of an agent: `cpu`, `memory`, or what a device plugin offers.
        node_labels: of nodes that may get an agent.
        pull_secret: of the image's registry.
        service_account: of all pods.
        secret: name of the Secret with token or identities.
        has_identities: the Secret has identities, not a token.
        claim: persistent volume claim that is mounted at WORK of the controller; None: an empty folder.
        timeout_s: all pods end after that, whatever happens.
        command: the controller's; empty: it waits for commands.
    """

    name: str
    image: str
    nodes: int
    secret: str
    interfaces: Sequence[str] = ()
    networks: Sequence[str] = ()
    host_network: bool = False
    adds_addresses: bool = False
    resources: Mapping[str, str] = field(default_factory=lambda: DEFAULT_RESOURCES)
    node_labels: Mapping[str, str] = field(default_factory=dict)
    pull_secret: str | None = None
    service_account: str | None = None
    has_identities: bool = True
    claim: str | None = None
    timeout_s: int = 3600
    command: Sequence[str] = ()

    @property
    def agents(self) -> list[str]:
        """Their names."""
        return [f"agent-{index}" for index in range(self.nodes)]

    @property
    def security(self) -> list[str]:
        """Options of `charkha` that both sides take."""
        return ["--identity", f"{SECRETS}/identity.pem"] if self.has_identities else ["--insecure"]

    @property
    def agent_arguments(self) -> list[str]:
        """The command line of an agent."""
        where = ["--controller", f"{self.name}:{CONTROL_PORT}", "--name", "agent-$(JOB_COMPLETION_INDEX)"]
        interfaces = [word for interface in self.interfaces for word in ("--interface", interface)]
        return ["agent", "start", *where, *interfaces, *self.security]

    @property
    def limits(self) -> dict[str, str]:
        """The resources that are limits, too."""
        return {name: amount for name, amount in self.resources.items() if name != "cpu"}


def manifests(placement: ClusterPlacement) -> list[Manifest]:
    """All objects but the Secret, in the order in which they are made."""
    loader = jinja2.PackageLoader("emulator.annexes.launch")
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, autoescape=False)
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    constants = {"port": CONTROL_PORT, "work": WORK, "secrets": SECRETS, "token": TOKEN, "user": USER}
    text = environment.get_template("manifests.yaml").render(constants, it=placement, grace_s=GRACE_S, kept_s=KEPT_S)
    return list(yaml.safe_load_all(text))


def to_yaml(documents: Sequence[Manifest], comment: str = "") -> str:
    """Documents as `kubectl apply -f -` takes them, below lines of comment."""
    lines = "".join(f"# {line}\n" for line in comment.splitlines())
    return lines + yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True, width=120)


def secret(placement: ClusterPlacement, content: Mapping[str, str]) -> Manifest:
    """The Secret; for kubectl's stdin, and for nobody's eyes."""
    return _object(placement, "v1", "Secret", placement.secret) | {"type": "Opaque", "stringData": dict(content)}


def labels(placement: ClusterPlacement, part: str | None = None) -> dict[str, str]:
    """The labels of all objects of a launch, or of the pods of one part: `controller` or `agent`."""
    whole = {"app.kubernetes.io/name": "charkha", "app.kubernetes.io/instance": placement.name}
    return whole if part is None else {**whole, "app.kubernetes.io/component": part}


def _object(placement: ClusterPlacement, version: str, kind: str, name: str) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels(placement)}}
