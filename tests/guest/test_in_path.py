"""Rules of firmware profiles between two stock RDMA endpoints: one packet is lost, and Linux sends it again."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.dut.load import load_profile
from emulator.dut.nftables import clean_text, compile_rule, parse_counters
from emulator.lab.model import BRIDGE
from tests.guest.machine import GUEST4, Guest, NoGuest

pytestmark = [pytest.mark.lab, pytest.mark.timeout(200)]


@pytest.fixture(scope="module")
def guests() -> Iterator[Guest]:
    image = Path(tempfile.gettempdir()) / f"charkha-guest-{os.getuid()}"
    machine = Guest(image, namespace=f"rxi{os.getpid()}", machines=2)
    try:
        machine.up()
        yield machine
    except NoGuest as error:
        pytest.skip(f"two guests with rdma_rxe {error}")
    finally:
        machine.down()


def nft(guests: Guest, *words: str, script: str | None = None) -> bytes:
    command = ["ip", "netns", "exec", guests.namespace, "nft", *words]
    return subprocess.run(
        command, check=True, capture_output=True, input=None if script is None else script.encode()
    ).stdout


@pytest.mark.parametrize(
    ("rule", "dropped"),
    [
        ("{drop: {once: true}, opcode: middle}", 1),
        ("{drop: {once: true}, opcode: ack}", 1),
        ("{drop: {every: 40}, opcode: data}", None),
    ],
)
def test_stock_endpoints_recover_from_what_a_rule_drops(
    guests: Guest, tmp_path: Path, rule: str, dropped: int | None
) -> None:
    (tmp_path / "p.yaml").write_text(f"rules:\n  - {rule}\n")
    (found,) = load_profile(tmp_path / "p.yaml").rules
    compiled = compile_rule(found, 0, kind=BRIDGE, ports=(), arriving=(), rates={}, frame_bytes=1100)
    test = "ib_write_bw -F -x 1 -m 1024 -s 65536 -n 20"
    before = guests.counters()
    nft(guests, "-f", "-", script=compiled.install())
    try:
        server = guests.start(test)
        guests.await_listener(18515)
        client = guests.start(f"{test} {GUEST4}", machine=2)
        text, _ = client.communicate(timeout=60)
        server.communicate(timeout=60)
        counted = parse_counters(nft(guests, "-j", "list", "counters"))["bridge", "rule_0"]
    finally:
        nft(guests, "-f", "-", script=clean_text(["bridge"]))
    assert (client.returncode, server.returncode) == (0, 0), text
    assert counted == dropped if dropped is not None else counted > 5
    if "ack" not in rule:
        assert guests.counters()["out_of_seq_request"] > before["out_of_seq_request"], "the receiver saw the gap"
