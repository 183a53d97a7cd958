"""What flows of a run spec send, before they are played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emulator.errors import PlanError
from emulator.experiment.settle.flow_loads import check_flows
from emulator.experiment.spec.spec import Experiment
from emulator.schema import decode

HOSTS = """
hosts:
  - {name: h0, interfaces: [{name: a, per_rank: 198.18.0.0/24}, {name: b, per_rank: 198.18.1.0/24}]}
  - {name: nic, address: 198.18.9.1, peer: {}}
"""
HERE, THERE = "h0:b", "nic:eth0"


@pytest.fixture
def topology(tmp_path: Path) -> str:
    (tmp_path / "t.yaml").write_text(HOSTS)
    return str(tmp_path / "t.yaml")


def sent(topology: str, flow: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    document = {
        "charkha": 1,
        "jobs": [{"trace": {"path": "unread"}}],
        "network": {"topology": topology},
        "flows": [{"kind": "perftest", "host": HERE, "peer": "nic", **flow}],
    }
    loads = check_flows(decode(document, Experiment), ranks=2)
    return [(str(load.sender), str(load.receiver), load.payload_bytes) for load in loads]


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        ({"iterations": 5, "size_bytes": 1000, "qps": 3}, [(HERE, THERE, 15_000)]),
        ({}, [(HERE, THERE, None)]),
        ({"verb": "send", "duration_s": 2}, [(HERE, THERE, None)]),
        ({"verb": "read"}, [(THERE, HERE, None)]),
        ({"role": "server", "iterations": 2, "size_bytes": 10}, [(THERE, HERE, 20)]),
        ({"role": "server", "verb": "read", "iterations": 2, "size_bytes": 10}, [(HERE, THERE, 20)]),
        ({"bidirectional": True, "iterations": 1, "size_bytes": 7}, [(HERE, THERE, 7), (THERE, HERE, 7)]),
        ({"verb": "write-lat", "iterations": 4}, [(HERE, THERE, 8), (THERE, HERE, 8)]),
        ({"verb": "read-lat", "iterations": 4}, [(THERE, HERE, 8)]),
    ],
)
def test_payload_goes_from_the_end_that_has_it(topology: str, flow: dict[str, Any], expected: list[Any]) -> None:
    assert sent(topology, flow) == expected


def test_what_a_run_would_refuse_is_refused(topology: str) -> None:
    with pytest.raises(PlanError, match=r"flows\[0\]: there is no peer 'h9'"):
        sent(topology, {"peer": "h9"})
