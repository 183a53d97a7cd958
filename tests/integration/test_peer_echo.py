"""`charkha agent peer --exchange rping` and `rdma-client` as a user runs them: both ends are Charkha, on loopback."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.command import Command, Finished, charkha, started, wait_for
from tests.support.loopback import NET, receives_datagrams

CLIENT, SERVER = f"{NET}.0.217", f"{NET}.0.218"


@contextmanager
def serving(cwd: Path, *options: object) -> Iterator[Command]:
    with started("agent", "peer", "serve", "--from", CLIENT, "--address", SERVER, *options, cwd=cwd) as server:
        wait_for(lambda: receives_datagrams(SERVER))
        yield server


def connect(cwd: Path, *options: object) -> Finished:
    return charkha("agent", "peer", "connect", SERVER, "--address", CLIENT, *options, cwd=cwd)


@pytest.mark.parametrize("size", [26, 5000])
def test_both_ends_of_rping_check_the_data_of_every_round(tmp_path: Path, size: int) -> None:
    options = ("--exchange", "rping", "--size", size, "--iters", 70, "--json")
    with serving(tmp_path, *options) as server:
        client = connect(tmp_path, *options)
        served = server.finish()
    assert (client.code, served.code) == (0, 0), (client.stderr, served.stderr)
    ours, theirs = json.loads(client.stdout), json.loads(served.stdout)
    assert ours["rounds"] == theirs["rounds"] == 70
    assert (ours["role"], theirs["role"]) == ("client", "server")
    assert ours["round_trip_ns"]["samples"] == 70


def test_people_see_what_rdma_client_did(tmp_path: Path) -> None:
    with serving(tmp_path, "--exchange", "rdma-client") as server:
        client = connect(tmp_path, "--exchange", "rdma-client")
        served = server.finish()
    assert (client.code, served.code) == (0, 0), (client.stderr, served.stderr)
    assert f"rdma_server at {SERVER}: this end, {CLIENT}, is the client; 16 B a round" in client.stdout
    assert "1 round complete" in served.stdout
    assert f"{SERVER} must be running: rdma_server -p 7471" in client.stderr


def test_sizes_that_differ_are_named_at_both_ends(tmp_path: Path) -> None:
    with serving(tmp_path, "--exchange", "rping", "--size", 64) as server:
        client = connect(tmp_path, "--exchange", "rping", "--size", 100)
        served = server.finish()
    assert (client.code, served.code) == (1, 1)
    assert "100 bytes a round, --size is 64 here: give both ends the same size" in served.stderr
    assert "does it run rping -s with the size of this end, 100 bytes?" in client.stderr


def test_a_client_that_plays_fewer_rounds_is_named(tmp_path: Path) -> None:
    with serving(tmp_path, "--exchange", "rping", "--iters", 9) as server:
        client = connect(tmp_path, "--exchange", "rping", "--iters", 8)
        served = server.finish()
    assert (client.code, served.code) == (0, 1)
    assert f"{CLIENT} disconnected after 8 rounds, --iters is 9 here" in served.stderr


def test_a_tool_of_another_kind_is_named(tmp_path: Path) -> None:
    with serving(tmp_path, "--exchange", "rdma-client", "--port", 7174) as server:
        client = connect(tmp_path, "--exchange", "rping")
        served = server.finish()
    assert client.code == 1
    assert "does it run rping -s" in client.stderr
    assert served.code in (0, 1)  # it cannot know: both begin with 16 bytes


@pytest.mark.parametrize("option", [("--verb", "read"), ("--qps", 2), ("--bidirectional",), ("--duration", 3)])
def test_options_of_perftest_are_refused(tmp_path: Path, option: tuple[object, ...]) -> None:
    finished = connect(tmp_path, "--exchange", "rping", *option)
    assert (finished.code, finished.stdout) == (2, "")
    assert f"{option[0]}: only perftest has it; omit it with --exchange rping" in finished.stderr
