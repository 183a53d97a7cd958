"""Background traffic on a real kernel: frames are those that it counted, and a job that hangs ends all the same."""

import json
from pathlib import Path

import pytest

from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from tests.support.command import charkha, succeed
from tests.support.full import IS_FULL
from tests.support.namespaces import Namespace, cut_frames

JOB = ("bench", "all_reduce", "-n", 2, "-b", "64K", "-e", "64K", "--agents", 1, "--topology", "t.yaml", "--out", "run")
UDP = "from=h0,to=h1,rate=10Mbit,transport=udp,size=4000"
ROCE = "from=h1,to=h0,rate=10Mbit,transport=roce,size=4000,pattern=constant"
ENDS = 3
"""Datagrams that tell the receiver how many there were."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    hosts = [{"name": f"h{n}", "per_rank": f"127.9.{n}.0/24", "slots": 1} for n in range(2)]
    (tmp_path / "t.yaml").write_text(json.dumps({"hosts": hosts}))
    return tmp_path


@pytest.mark.skipif(not IS_FULL, reason="part of the full tests: set CHARKHA_FULL=1")
def test_frames_are_those_of_the_job_and_those_of_the_flows(place: Namespace, folder: Path) -> None:
    cut_frames(place, "lo")
    names = {"datagrams": "udp dport 20000", "writes": "ip daddr 127.9.0.253 udp dport 4791",
             "acks": "ip daddr 127.9.1.253 udp dport 4791", "job": "ip daddr {127.9.0.1, 127.9.1.1} udp dport 4791",
             "total": "ip protocol udp"}  # fmt: skip
    counters = "\n".join(f"counter {name} {{\n}}" for name in names)
    rules = "\n".join(f"{match} counter name {name}" for name, match in names.items())
    chain = f"chain input {{\ntype filter hook input priority 0; policy accept;\n{rules}\n}}"
    place.nft(f"table inet wire {{\n{counters}\n{chain}\n}}")
    flows = ("--background", UDP, "--background", ROCE)
    finished = succeed(
        *JOB, "--iterations", 20, "--transport", "roce", *flows, "--json", cwd=folder, prefix=place.prefix
    )
    udp, roce = json.loads(finished.stdout)["background"]
    seen = place.counters("wire")
    assert udp["lost_packets"] == 0
    assert seen["datagrams"] == udp["packets"] + ENDS
    assert udp["packets"] >= 3 * udp["sent_messages"] > 0
    assert seen["writes"] == roce["packets"] >= roce["sent_messages"] + 1
    assert 0 < seen["acks"] <= seen["writes"]
    table = read_run(folder / "run").table(RunTable.FLOWS)
    assert seen["job"] >= sum(table["packets"].to_pylist()) > 0  # and its acknowledgements
    assert seen["total"] == seen["datagrams"] + seen["writes"] + seen["acks"] + seen["job"]


@pytest.mark.slow
def test_a_job_that_hangs_ends_although_background_flows(place: Namespace, folder: Path) -> None:
    place.nft(
        "table inet wire {\nchain input {\ntype filter hook input priority 0; policy accept;\n"
        "ip daddr 127.9.1.1 udp dport 4791 drop\n}\n}"
    )
    patient = ("--transport", "roce", "--qp-timeout", 20, "--timeout", 4)  # the queue pairs would try for half a minute
    finished = charkha(*JOB, *patient, "--background", UDP, cwd=folder, prefix=place.prefix)
    assert finished.code == 1
    assert "nothing happened for 4 s" in finished.stderr
    sent, received = read_run(folder / "run").table(RunTable.FLOW_RESULTS).to_pylist()
    assert min(sent["messages"], received["messages"]) > 50  # it flowed until the end
    assert not sent["is_complete"]
