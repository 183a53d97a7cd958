"""Flows of a run spec alongside its job, on loopback: their peers are `charkha agent peer`."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from emulator.experiment.play.play import has_samples
from emulator.experiment.spec.document import experiment_of_run
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from tests.integration.test_peer import listens
from tests.support.command import Command, Finished, answer, charkha, started, wait_for
from tests.support.loopback import NET, free_port, receives_datagrams

LAST, PEER = f"{NET}.0.254", f"{NET}.9.1"
STOPPED_S = 45.0
"""A second is promised; a busy machine takes longer, and the report is written too. Without an abort it is a minute."""


@pytest.fixture
def port() -> int:
    return free_port()


def written(folder: Path, port: int, *flows: dict[str, Any], iterations: int = 2) -> None:
    hosts = [
        {"name": "here", "per_rank": f"{NET}.0.0/24", "slots": 2},
        {"name": "idle", "addresses": [f"{NET}.5.1"], "slots": 1},
        {"name": "nic", "address": PEER, "peer": {"port": port, "exchange": "127.0.0.1"}},
    ]
    (folder / "t.yaml").write_text(json.dumps({"hosts": hosts, "placement": {"0": "here", "1": "here"}}))
    job = {"sweep": {"collective": "all_reduce", "ranks": 2, "sizes": ["64K"]}, "iterations": iterations, "warmup": 1}
    spec = {"jobs": [job], "flows": [{"kind": "perftest", "peer": "nic", **flow} for flow in flows]}
    (folder / "run.yaml").write_text(json.dumps({**spec, "network": {"topology": "t.yaml"}, "agents": {"count": 1}}))


@contextmanager
def serving(folder: Path, port: int, client: str, *options: object) -> Iterator[Command]:
    where = ("--from", "127.0.0.1", "--peer-address", client, "--address", PEER, "--port", port, "--json")
    with started("agent", "peer", "serve", *where, *options, cwd=folder) as command:
        wait_for(lambda: listens(port))
        yield command


def run(folder: Path, *options: object) -> Finished:
    return charkha("run", "-f", "run.yaml", "--out", "run", *options, cwd=folder)


def test_a_flow_lasts_as_long_as_the_job_and_both_ends_count_the_same(tmp_path: Path, port: int) -> None:
    written(tmp_path, port, {"host": "here", "size_bytes": "8K", "qps": 2})
    with serving(tmp_path, port, LAST, "--size", "8K", "--qps", 2) as server:
        finished = run(tmp_path, "--json")
        served = json.loads(server.finish().stdout)
    assert finished.code == 0, finished.stderr
    assert f"nic must be running: ib_write_bw --size=8192 --mtu=4096 --qp=2 --port={port}" in finished.stderr
    (row,) = json.loads(finished.stdout)["flow_results"]
    assert row["messages"] == served["received"]["messages"] > 0
    assert row["bytes"] == served["received"]["payload_bytes"] == row["messages"] * 8192
    assert (row["host"], row["peer"], row["direction"], row["is_complete"]) == ("here", "nic", "sent", True)
    first, last = _span(tmp_path / "run")
    assert first <= row["start_ns"] + 30_000_000_000  # a busy machine begins to play late
    assert row["start_ns"] + row["duration_ns"] >= last  # the last message was under way when the job ended
    spec = read_run(tmp_path / "run").manifest.spec
    assert spec["flows"] == [{"kind": "perftest", "host": "here", "peer": "nic", "size_bytes": 8192, "qps": 2}]
    again = experiment_of_run(read_run(tmp_path / "run"))
    assert again.to_plain()["flows"] == spec["flows"]
    answer("report", "run", cwd=tmp_path)
    assert "Flows alongside the job" in (tmp_path / "run" / "report.html").read_text()


def _span(folder: Path) -> tuple[int, int]:
    """First start and last end of the iterations, ns."""
    table = read_run(folder).table(RunTable.ITERATIONS)
    return min(table["start_ns"].to_pylist()), max(table["end_ns"].to_pylist())


def test_a_host_without_ranks_answers_a_peer_that_connects_with_rdma_cm(tmp_path: Path, port: int) -> None:
    flow = {"host": "idle", "role": "server", "verb": "read", "iterations": 30, "rdma_cm": True, "port": port}
    written(tmp_path, port, flow)
    address = f"{NET}.5.1"
    with started("run", "-f", "run.yaml", "--out", "run", cwd=tmp_path) as command:
        wait_for(lambda: receives_datagrams(address))
        where = ("--address", PEER, "--port", port, "--rdma-cm", "--verb", "read", "--iters", 30, "--json")
        client = charkha("agent", "peer", "connect", address, *where, cwd=tmp_path)
        finished = command.finish()
    assert (client.code, finished.code) == (0, 0), (client.stderr, finished.stderr)
    assert json.loads(client.stdout)["sent"]["messages"] == 30
    assert "0: idle ← nic" in finished.stdout
    assert "served by idle" in finished.stdout
    assert "read by nic, it says" in finished.stdout


def test_a_peer_that_does_not_answer_is_named_before_any_traffic(tmp_path: Path, port: int) -> None:
    written(tmp_path, port, {"host": "here"})
    finished = run(tmp_path)
    assert finished.code == 1
    assert f"flow 0 (perftest, here to nic): no perftest listens at 127.0.0.1, port {port}" in finished.stderr
    assert "nothing was measured" in finished.stderr


@pytest.mark.parametrize("ended", ["run", "peer"])
def test_whoever_ends_the_other_stops_at_once_and_what_was_counted_stays(tmp_path: Path, port: int, ended: str) -> None:
    written(tmp_path, port, {"host": "here"}, iterations=1_000_000)
    with (
        serving(tmp_path, port, LAST) as server,
        started("run", "-f", "run.yaml", "--out", "run", cwd=tmp_path) as command,
    ):
        wait_for(lambda: has_samples(tmp_path / "run") or None)  # the job plays, so both ends have met
        wait_for(
            lambda: read_run(tmp_path / "run").table(RunTable.ITERATIONS).num_rows > 400 or None
        )  # beside the flow
        victim = command if ended == "run" else server
        victim.process.send_signal(signal.SIGINT if ended == "run" else signal.SIGKILL)
        began = time.monotonic()
        finished = command.finish()
        if ended == "run":
            assert server.finish().code == 1
        assert time.monotonic() - began < STOPPED_S
    assert finished.code == (130 if ended == "run" else 1)
    if ended == "peer":
        assert f"flow 0 (perftest, here to nic): {PEER} disconnected" in finished.stderr.replace("127.0.0.1", PEER)
    (row,) = read_run(tmp_path / "run").table(RunTable.FLOW_RESULTS).to_pylist()
    assert row["messages"] > 0
    assert not row["is_complete"]
