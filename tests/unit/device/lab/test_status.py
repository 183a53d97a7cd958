"""The counters of a lab, as iproute2 prints them."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeAlias

import pytest

from emulator.device.lab.status import COUNTERS, QUEUE_BACKLOG, QUEUE_DROPS, describe, device_counters
from emulator.host.tools import CommandBatch
from emulator.topology.load import load_topology
from tests.support.labs import TWO_HOSTS, designed, pretended

LINK = {
    "ifname": "eth0",
    "flags": ["BROADCAST", "MULTICAST", "UP"],
    "stats64": {
        "rx": {"packets": 1, "bytes": 2, "dropped": 3, "errors": 4, "multicast": 9},
        "tx": {"packets": 5, "bytes": 6, "dropped": 7, "errors": 8, "collisions": 9},
    },
}
SHAPER = {"dev": "eth0", "handle": "2:", "drops": 11, "backlog": 12}


Prints: TypeAlias = Callable[[Any, Any], list[CommandBatch]]


@pytest.fixture
def prints() -> Iterator[Prints]:
    """Has `ip` and `tc` print these documents (text as it is); returns the batches that ask for them."""
    with ExitStack() as stack:

        def begin(links: Any, qdiscs: Any) -> list[CommandBatch]:
            def printed(batch: CommandBatch) -> str:
                if "pids" in batch.command:
                    return "17 18\n"
                document = links if batch.command[0] == "ip" else qdiscs
                return document if isinstance(document, str) else json.dumps(document)

            return stack.enter_context(pretended(printed))

        yield begin


def test_counters_of_a_device_are_those_of_its_frames_and_of_its_shaper(prints: Prints) -> None:
    asked = prints([LINK], [{"dev": "eth0", "handle": "1:", "drops": 99, "backlog": 99}, SHAPER])
    assert device_counters("charkha-x-h0") == {
        "eth0": dict(zip(COUNTERS, range(1, 9), strict=True)) | {QUEUE_DROPS: 11, QUEUE_BACKLOG: 12}
    }
    assert [batch.command[:3] for batch in asked] == [("ip", "-n", "charkha-x-h0"), ("tc", "-n", "charkha-x-h0")]


def test_a_device_without_a_shaper_has_no_queue(prints: Prints) -> None:
    prints([LINK], [SHAPER | {"dev": "eth1"}])
    assert QUEUE_DROPS not in device_counters("x")["eth0"]


def test_a_shaper_that_counts_nothing_has_dropped_nothing(prints: Prints) -> None:
    prints([LINK], [{"dev": "eth0", "handle": "2:"}])
    counters = device_counters("x")["eth0"]
    assert (counters[QUEUE_DROPS], counters[QUEUE_BACKLOG]) == (0, 0)


@pytest.mark.parametrize("printed", ["", "  \n", "Cannot open network namespace"])
def test_a_namespace_that_cannot_be_entered_has_no_counters(printed: str, prints: Prints) -> None:
    prints(printed, printed)
    assert device_counters("x") == {}


def test_a_lab_is_described_port_by_port(prints: Prints) -> None:
    state = designed(load_topology(TWO_HOSTS, ranks=0), "x")
    prints([LINK], [SHAPER])
    shown = describe(state)
    assert shown.processes == 2 * len(state.design.nodes)
    document = shown.to_json()
    assert (document["id"], document["phase"], document["nodes"][0]["kind"]) == ("x", state.phase, "host")
    port = document["nodes"][0]["ports"][0]
    assert (port["device"], port["counters"]["tx_dropped"], port["counters"][QUEUE_DROPS]) == ("eth0", 7, 11)
    assert (port["link"], document["belongs_to"]["service"]) == ("no carrier", None)
    assert port["shaping"]["rate_bps"] == state.design.nodes[0].ports[0].shaping.rate_bps  # type: ignore[union-attr]
    assert document["links"][0] == [str(end) for end in state.design.cables[0]]
    switch = next(node for node in document["nodes"] if node["kind"] != "host")
    assert all((one["counters"], one["link"]) == ({}, None) for one in switch["ports"] if one["device"] != "eth0")
