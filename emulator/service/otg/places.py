"""Whether the ranks of a run are where a configuration puts them: at the hosts it names, in that order."""

from __future__ import annotations

from pathlib import Path

from emulator.experiment.spec import Experiment
from emulator.service.model import Refusal
from emulator.service.otg.model import Communicator
from emulator.service.otg.translation import StageRun
from emulator.topology.load import load_topology
from emulator.topology.model import Topology, default_loopback


def check_places(run: StageRun, experiment: Experiment, path: str) -> None:
    """Compare a stage with the topology that its run uses.

    Args:
        run: the stage.
        experiment: its run spec, with what the device sets.
        path: of the stage, for errors.

    Raises:
        Refusal: ranks are on other hosts, or addresses of another family.
        InputError: the topology has no such host, or is wrong.
    """
    for index, one in enumerate(run.stage.communicators):
        here, topology = f"{path}.communicators[{index}]", _topology(experiment, one)
        ranks = range(len(one.device_names))
        hosts = tuple(topology.host_of(rank).name for rank in ranks)
        if experiment.network.topology is not None and hosts != one.device_names:
            raise Refusal(f"{here}.device_names: the topology puts the ranks on {', '.join(hosts)}, in this order")
        family = "ipv6" if topology.is_ipv6 else "ipv4"
        if one.rocev2 is not None and one.rocev2.encapsulation != family:
            raise Refusal(f"{here}.rocev2.encapsulation: the addresses of the ranks are {family}")


def _topology(experiment: Experiment, one: Communicator) -> Topology:
    network, ranks = experiment.network, len(one.device_names)
    if network.topology is None:
        return default_loopback(ranks)
    return load_topology(
        Path(network.topology), ranks=ranks, allow_networks=network.allow_networks, hosts=one.device_names
    )
