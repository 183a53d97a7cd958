"""What Kubernetes is asked for: an Indexed Job of agents, a Job for the controller, a headless Service to find it.

Pure: from what is to be placed to manifests as plain values. No manifest has a secret in it: pods take token or
identity from a Secret that they name. Pods meet the restricted profile of the Pod Security Standards, but for what
`host_network` and `adds_addresses` ask for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
NODE = "kubernetes.io/hostname"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""Annotation of the Network Plumbing Working Group's standard; Multus reads it."""


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


def manifests(placement: ClusterPlacement) -> list[Manifest]:
    """All objects but the Secret, in the order in which they are made."""
    return [_service(placement), _job(placement, "controller"), _job(placement, "agent")]


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


def job_name(placement: ClusterPlacement, part: str) -> str:
    """Name of the Job of a part."""
    return f"{placement.name}-{part}"


def _object(placement: ClusterPlacement, version: str, kind: str, name: str) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels(placement)}}


def _service(placement: ClusterPlacement) -> Manifest:
    """Headless: a name for the address of the controller's pod, with no proxy between it and the agents."""
    return _object(placement, "v1", "Service", placement.name) | {
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels(placement, "controller"),
            "ports": [{"name": "control", "port": CONTROL_PORT, "protocol": "TCP"}],
        }
    }


def _job(placement: ClusterPlacement, part: str) -> Manifest:
    """A Job whose pods are started once: a measurement that lost an agent is no measurement."""
    is_agent = part == "agent"
    pods = placement.nodes if is_agent else 1
    template: Manifest = {"metadata": {"labels": labels(placement, part)}, "spec": _pod(placement, part)}
    if is_agent and placement.networks:
        template["metadata"]["annotations"] = {NETWORKS: ",".join(placement.networks)}
    return _object(placement, "batch/v1", "Job", job_name(placement, part)) | {
        "spec": {
            "completions": pods,
            "parallelism": pods,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "activeDeadlineSeconds": placement.timeout_s,
            "ttlSecondsAfterFinished": KEPT_S,
            "template": template,
        }
    }


def _pod(placement: ClusterPlacement, part: str) -> Manifest:
    is_agent = part == "agent"
    optional: Manifest = {}
    if placement.service_account is not None:
        optional["serviceAccountName"] = placement.service_account
    if placement.pull_secret is not None:
        optional["imagePullSecrets"] = [{"name": placement.pull_secret}]
    if is_agent:
        optional |= _place(placement)
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_S,
        "automountServiceAccountToken": False,  # no process of a run talks to the cluster
        "enableServiceLinks": False,
        "securityContext": _pod_security(is_root=is_agent and placement.adds_addresses),
        **optional,
        "containers": [_agent(placement) if is_agent else _controller(placement)],
        "volumes": _volumes(placement, part),
    }


def _place(placement: ClusterPlacement) -> Manifest:
    """Where agents may be: one per node, never two."""
    spread = {"labelSelector": {"matchLabels": labels(placement, "agent")}, "topologyKey": NODE}
    place: Manifest = {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [spread]}},
        # Pods are started before the controller has an address, and an agent ends if it cannot resolve the name.
        "initContainers": [
            _container(placement, "controller-address")
            | {"command": ["sh", "-c", f"until getent hosts {placement.name}; do sleep 0.2; done"]}
            | _security(adds_addresses=False)
        ],
    }
    if placement.host_network:
        place |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if placement.node_labels:
        place["nodeSelector"] = dict(placement.node_labels)
    return place


def _agent(placement: ClusterPlacement) -> Manifest:
    arguments = [
        "agent",
        "start",
        "--controller",
        f"{placement.name}:{CONTROL_PORT}",
        "--name",
        "agent-$(JOB_COMPLETION_INDEX)",
    ]
    for interface in placement.interfaces:
        arguments += ["--interface", interface]
    # No limit of processor time: the kernel enforces it by pauses, which would look like those of the network.
    limits = {name: amount for name, amount in placement.resources.items() if name != "cpu"}
    return _container(placement, "agent") | {
        "args": arguments + placement.security,
        **_environment(placement),
        "resources": {"requests": dict(placement.resources), "limits": limits},
        **_security(adds_addresses=placement.adds_addresses),
        "volumeMounts": _mounts(placement, "agent-$(JOB_COMPLETION_INDEX)"),
    }


def _controller(placement: ClusterPlacement) -> Manifest:
    waits = {"command": ["sleep", "infinity"]}
    return _container(placement, "controller") | {
        **({"args": list(placement.command)} if placement.command else waits),
        **_environment(placement),
        "workingDir": WORK,
        "ports": [{"name": "control", "containerPort": CONTROL_PORT}],
        **_security(adds_addresses=False),
        "volumeMounts": [*_mounts(placement, "controller"), {"name": "work", "mountPath": WORK}],
    }


def _container(placement: ClusterPlacement, name: str) -> Manifest:
    return {"name": name, "image": placement.image}


def _environment(placement: ClusterPlacement) -> Manifest:
    environment: list[Manifest] = [{"name": "HOME", "value": "/tmp"}]  # the user has none in the image
    if not placement.has_identities:
        source = {"secretKeyRef": {"name": placement.secret, "key": TOKEN}}
        environment.append({"name": "CHARKHA_TOKEN", "valueFrom": source})
    return {"env": environment}


def _mounts(placement: ClusterPlacement, identity: str) -> list[Manifest]:
    """A pod sees its own identity only."""
    mounts: list[Manifest] = [{"name": "scratch", "mountPath": "/tmp"}]
    if placement.has_identities:
        own = {"mountPath": f"{SECRETS}/identity.pem", "subPathExpr": identity, "readOnly": True}
        mounts.append({"name": "identities", **own})
    return mounts


def _volumes(placement: ClusterPlacement, part: str) -> list[Manifest]:
    volumes: list[Manifest] = [{"name": "scratch", "emptyDir": {}}]
    if placement.has_identities:
        # Readable by the group that `fsGroup` names: an identity that everybody can read is refused.
        volumes.append({"name": "identities", "secret": {"secretName": placement.secret, "defaultMode": 0o440}})
    if part == "controller":
        claimed = {"persistentVolumeClaim": {"claimName": placement.claim}}
        volumes.append({"name": "work", **({"emptyDir": {}} if placement.claim is None else claimed)})
    return volumes


def _pod_security(*, is_root: bool) -> Manifest:
    own: Manifest = {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER}
    # A container gives capabilities to root alone.
    return (own if not is_root else {"runAsUser": 0, "fsGroup": 0}) | {"seccompProfile": {"type": "RuntimeDefault"}}


def _security(*, adds_addresses: bool) -> Manifest:
    capabilities = {"drop": ["ALL"]} | ({"add": ["NET_ADMIN"]} if adds_addresses else {})
    return {
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": capabilities,
        }
    }
