"""Manifests of a launch: what a cluster is asked for, and what it is never told."""

import itertools
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
import yaml

from emulator.annexes.launch.manifests import ClusterPlacement, Manifest, manifests, secret, to_yaml
from tests.support.full import IS_FULL

PLAIN = ClusterPlacement(name="charkha-1", image="charkha:1", nodes=3, secret="charkha-1")
ALL = ClusterPlacement(
    name="charkha-2",
    image="registry.example/charkha:1",
    nodes=2,
    secret="own",
    interfaces=("net1", "net2"),
    networks=("lab/rail0", "rail1@net2"),
    host_network=True,
    adds_addresses=True,
    resources={"cpu": "4", "memory": "8Gi", "rdma/hca": "1"},
    node_labels={"rack": "7"},
    pull_secret="registry",
    service_account="tester",
    has_identities=False,
    claim="traces",
    command=("run", "traces/x"),
)


def of_part(placement: ClusterPlacement, part: str) -> Manifest:
    job = next(one for one in manifests(placement) if one["metadata"]["name"] == f"{placement.name}-{part}")
    spec: Manifest = job["spec"]
    return spec


def pod(placement: ClusterPlacement, part: str) -> Manifest:
    found: Manifest = of_part(placement, part)["template"]["spec"]
    return found


def versions() -> list[str]:
    """Schema versions of kubernetes-validate: all, or the oldest and the newest."""
    validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    folders = files(validate).joinpath("kubernetes-json-schema").iterdir()
    found = {one.name.removeprefix("v").partition("-")[0] for one in folders if one.name.endswith("-strict")}
    ordered = sorted(found, key=lambda one: [*map(int, one.split("."))])
    return ordered if IS_FULL else [ordered[0], ordered[-1]]


@pytest.mark.parametrize("placement", [PLAIN, ALL])
def test_every_schema_of_kubernetes_takes_the_manifests(placement: ClusterPlacement) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    for version in versions():
        for manifest in [secret(placement, {"token": "x"}), *manifests(placement)]:
            kubernetes_validate.validate(manifest, version, strict=True)
        wrong = manifests(placement)[-1]
        wrong["spec"]["template"]["spec"]["containers"][0]["imaje"] = "x"
        with pytest.raises(kubernetes_validate.ValidationError, match="imaje"):
            kubernetes_validate.validate(wrong, version, strict=True)


@pytest.mark.parametrize("placement", [PLAIN, ALL])
def test_what_is_printed_is_what_is_made_and_holds_no_secret(placement: ClusterPlacement) -> None:
    text = to_yaml(manifests(placement), "first\nsecond")
    assert text.startswith("# first\n# second\n---\n")
    assert list(yaml.safe_load_all(text)) == manifests(placement)
    assert "kind: Secret" not in text


def test_agents_are_on_different_nodes_and_started_once() -> None:
    job, agent = of_part(PLAIN, "agent"), pod(PLAIN, "agent")
    assert (job["completions"], job["parallelism"], job["completionMode"]) == (3, 3, "Indexed")
    assert (job["backoffLimit"], agent["restartPolicy"]) == (0, "Never")
    (rule,) = agent["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    own = job["template"]["metadata"]["labels"]
    assert rule == {"labelSelector": {"matchLabels": own}, "topologyKey": "kubernetes.io/hostname"}


@pytest.mark.parametrize("part", ["agent", "controller"])
def test_pods_end_in_time_whatever_happens(part: str) -> None:
    assert of_part(PLAIN, part)["activeDeadlineSeconds"] == PLAIN.timeout_s
    assert pod(PLAIN, part)["terminationGracePeriodSeconds"] <= 2


def test_agents_find_the_controller_by_the_name_of_the_service() -> None:
    service = next(one for one in manifests(PLAIN) if one["kind"] == "Service")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == of_part(PLAIN, "controller")["template"]["metadata"]["labels"]
    words = pod(PLAIN, "agent")["containers"][0]["args"]
    assert words[:4] == [
        "agent",
        "start",
        "--controller",
        f"{service['metadata']['name']}:{service['spec']['ports'][0]['port']}",
    ]


def containers(placement: ClusterPlacement) -> Iterator[Manifest]:
    for part in ("agent", "controller"):
        yield from pod(placement, part)["containers"] + pod(placement, part).get("initContainers", [])


def test_pods_meet_the_restricted_profile() -> None:
    for part in ("agent", "controller"):
        context = pod(PLAIN, part)["securityContext"]
        assert (context["runAsNonRoot"], context["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
        assert not pod(PLAIN, part)["automountServiceAccountToken"]
        assert "hostNetwork" not in pod(PLAIN, part)
    for one in containers(PLAIN):
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert one["securityContext"]["allowPrivilegeEscalation"] is False


def test_only_agents_that_add_addresses_are_root_and_have_one_capability() -> None:
    assert pod(ALL, "agent")["securityContext"]["runAsUser"] == 0
    assert pod(ALL, "controller")["securityContext"]["runAsNonRoot"]
    added = {one["name"]: one["securityContext"]["capabilities"].get("add") for one in containers(ALL)}
    assert added == {"agent": ["NET_ADMIN"], "controller-address": None, "controller": None}


def test_a_pod_sees_its_own_identity_only() -> None:
    seen = {
        one["name"]: [mount.get("subPathExpr") for mount in one.get("volumeMounts", ())] for one in containers(PLAIN)
    }
    assert "agent-$(JOB_COMPLETION_INDEX)" in seen["agent"]
    assert "controller" in seen["controller"]
    assert seen["controller-address"] == []


def test_a_token_comes_from_the_secret_and_is_no_argument() -> None:
    for one in (pod(ALL, part)["containers"][0] for part in ("agent", "controller")):
        variable = next(each for each in one["env"] if each["name"] == "CHARKHA_TOKEN")
        assert variable["valueFrom"] == {"secretKeyRef": {"name": "own", "key": "token"}}


def test_secondary_networks_and_the_nodes_own_interfaces() -> None:
    annotations = of_part(ALL, "agent")["template"]["metadata"]["annotations"]
    assert annotations == {"k8s.v1.cni.cncf.io/networks": "lab/rail0,rail1@net2"}
    assert pod(ALL, "agent")["hostNetwork"]
    words = pod(ALL, "agent")["containers"][0]["args"]
    assert [value for option, value in itertools.pairwise(words) if option == "--interface"] == [
        "net1",
        "net2",
    ]
    assert "annotations" not in of_part(ALL, "controller")["template"]["metadata"]


def test_no_limit_of_processor_time_that_would_pause_an_agent() -> None:
    resources: dict[str, Any] = pod(ALL, "agent")["containers"][0]["resources"]
    assert resources["requests"] == dict(ALL.resources)
    assert resources["limits"] == {"memory": "8Gi", "rdma/hca": "1"}  # of devices, limits and requests must be equal


def test_a_controller_without_a_command_waits_for_some() -> None:
    assert pod(PLAIN, "controller")["containers"][0]["command"] == ["sleep", "infinity"]
    assert pod(ALL, "controller")["containers"][0]["args"] == ["run", "traces/x"]
