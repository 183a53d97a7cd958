from pathlib import Path

import pytest

from emulator.errors import InputError, PlanError, TopologyError
from emulator.experiment.settle.testbed import enter_testbed, listening, topology_without_host
from emulator.experiment.spec.spec import Agents, Experiment, Network

TOPOLOGY = Path(__file__).parents[3] / "topologies" / "two-hosts-switch.yaml"


def experiment(**network: object) -> Experiment:
    return Experiment.of_trace("t", network=Network(**network))  # type: ignore[arg-type]


def test_a_lab_needs_a_topology() -> None:
    with pytest.raises(InputError, match="--lab needs --topology"), enter_testbed(experiment(lab="x"), ranks=2):
        pass


def test_a_plan_is_made_on_the_topology_without_a_lab() -> None:
    found = topology_without_host(experiment(topology=str(TOPOLOGY)), ranks=2)
    assert (found.ranks, found.source) == (2, str(TOPOLOGY))


def test_a_plan_without_a_topology_is_made_on_loopback() -> None:
    found = topology_without_host(experiment(), ranks=3)
    assert found.ranks == 3
    assert len({found.address_of(rank) for rank in range(3)}) == 3


def test_a_topology_file_that_is_not_valid_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("hosts: 3\n")
    with pytest.raises(TopologyError, match=r"t\.yaml"):
        topology_without_host(experiment(topology=str(path)), ranks=1)


def test_local_agents_need_no_address() -> None:
    assert listening(Agents()) is None


@pytest.mark.parametrize(
    ("agents", "problem"),
    [
        (Agents(by_hand=True), "agents started by hand need an address: give --listen HOST:PORT or unix:PATH"),
        (Agents(token_file="t"), "--token-file is for --listen"),
        (Agents(tls_cert="c"), "--tls-cert is for --listen"),
        (Agents(tls_key="k"), "--tls-key is for --listen"),
        (Agents(tls_ca="a"), "--tls-ca is for --listen"),
    ],
)
def test_an_address_and_its_files_belong_together(agents: Agents, problem: str) -> None:
    with pytest.raises(PlanError) as caught:
        listening(agents)
    assert str(caught.value) == problem


def test_an_address_with_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret-secret-secret\n")
    (tmp_path / "token").chmod(0o600)
    found = listening(Agents(listen="127.0.0.1:4790", token_file=str(tmp_path / "token")))
    assert found.target == "127.0.0.1:4790"


def test_a_token_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing"):
        listening(Agents(listen="127.0.0.1:4790", token_file=str(tmp_path / "nothing")))
