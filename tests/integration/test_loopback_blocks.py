"""Runs at the same time keep apart: each has loopback addresses of its own."""

import json
import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from emulator.experiment.settle.testbed import reserved_block
from emulator.roce.constants import UDP_PORT
from emulator.topology.model import LOOPBACK_BLOCKS, default_loopback
from tests.support.command import EXAMPLE, started


def test_a_block_is_taken_until_it_is_given_back() -> None:
    with ExitStack() as held:
        first = held.enter_context(reserved_block())
        second = held.enter_context(reserved_block())
        assert first % LOOPBACK_BLOCKS != second % LOOPBACK_BLOCKS
    with reserved_block() as again:
        assert again % LOOPBACK_BLOCKS == first % LOOPBACK_BLOCKS


def test_a_block_that_somebody_else_listens_at_is_passed_over() -> None:
    with reserved_block() as free:
        pass
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind((default_loopback(1, block=free).address_of(0), UDP_PORT))
        with reserved_block() as other:
            assert other % LOOPBACK_BLOCKS != free % LOOPBACK_BLOCKS


def test_two_runs_at_the_same_time_both_complete(tmp_path: Path) -> None:
    small = ("--scale-bytes", "1/1024", "--compute", "skip", "--iterations", 2, "--agents", 2)
    with ExitStack() as running:
        both = [
            running.enter_context(started("run", EXAMPLE, *small, "--out", name, cwd=tmp_path)) for name in ("a", "b")
        ]
        finished = [command.finish() for command in both]
    assert [(one.code, one.stderr) for one in finished] == [(0, ""), (0, "")]
    topologies = [json.loads((tmp_path / name / "manifest.json").read_text())["topology"] for name in ("a", "b")]
    assert not set(topologies[0]["addresses"]) & set(topologies[1]["addresses"])


@pytest.mark.parametrize("pids", [(1000, 1000), (1000, 1000 + LOOPBACK_BLOCKS)], ids=["same", "same block"])
def test_processes_whose_numbers_fall_together_still_keep_apart(
    pids: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as held:
        blocks = []
        for pid in pids:
            monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
            blocks.append(held.enter_context(reserved_block()) % LOOPBACK_BLOCKS)
    assert len(set(blocks)) == 2
