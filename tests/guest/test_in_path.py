"""A lab between two stock RDMA endpoints: it loses one packet, and Linux sends it again."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.guest.image import NoGuest
from tests.guest.machine import GUEST4, Guest
from tests.support.command import Finished, succeed, wait_for
from tests.support.full import IS_FULL

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def guests() -> Iterator[Guest]:
    """Two guests; the second hangs on a cable `box0`-`box1` and its tap, which are free for a lab between them."""
    machine = Guest(namespace=f"rxi{os.getpid()}", machines=2)
    ip = ("ip", "-n", machine.namespace)
    try:
        machine.up()
        for words in (
            "link add box0 mtu 9000 type veth peer name box1 mtu 9000",
            "link set dev box0 master br0 up",
            "link set dev tap2 nomaster",
        ):
            subprocess.run([*ip, *words.split()], check=True, capture_output=True)
        yield machine
    except NoGuest as error:
        pytest.skip(f"two guests with rdma_rxe {error}")
    finally:
        machine.down()


def lab(guests: Guest, folder: Path, *words: object) -> Finished:
    enter = ("nsenter", f"--net=/run/netns/{guests.namespace}", "--")
    return succeed("lab", *words, cwd=folder, prefix=enter)


def settled_status(guests: Guest, folder: Path, name: str) -> dict[str, Any] | None:
    """The lab once no frame is on its way: counters of ports are read one after the other."""
    (shown,) = json.loads(lab(guests, folder, "status", name, "--json").stdout)
    status: dict[str, Any] = shown["between"]
    return status if status["totals"]["unaccounted"] == 0 else None


repeated_loss = pytest.mark.skipif(not IS_FULL, reason="20 s and more of waiting on a busy machine: CHARKHA_FULL=1")


@pytest.mark.parametrize(
    ("rule", "dropped"),
    [
        ("{drop: {once: true}, opcode: middle}", 1),
        ("{drop: {once: true}, opcode: ack}", 1),
        pytest.param("{drop: {every: 40}, opcode: data}", None, marks=repeated_loss),
        ("{mark: {every: 10}, opcode: data}", 0),
    ],
)
def test_stock_endpoints_recover_from_what_rules_do(
    guests: Guest, tmp_path: Path, rule: str, dropped: int | None
) -> None:
    (tmp_path / "p.yaml").write_text(f"rules:\n  - {rule}\n")
    name = f"i{os.getpid()}"
    lab(guests, tmp_path, "up", "--between", "box1", "tap2", "--profile", "p.yaml", "--id", name)
    try:
        before = guests.counters()
        text = write(guests)
        gaps = guests.counters()["out_of_seq_request"] - before["out_of_seq_request"]
        status = wait_for(lambda: settled_status(guests, tmp_path, name))
        print(lab(guests, tmp_path, "status", name).stdout)
    finally:
        lab(guests, tmp_path, "down", name)
    (counted,) = (one["frames"] for one in status["rules"])
    if dropped is None or "mark" in rule:
        assert counted > 5
    else:
        assert counted == dropped
    assert status["totals"]["unaccounted"] == status["totals"]["queue_drops"] == 0, text
    if "opcode: ack" not in rule:
        assert (gaps > 0) == ("drop" in rule), "the receiver sees a gap where a packet is lost, and only there"


def write(guests: Guest) -> str:
    """What `ib_write_bw` from the second guest to the first prints: 20 messages of 64 packets."""
    test = "ib_write_bw -F -x 1 -m 1024 -s 65536 -n 20 --tclass=2"  # ECN-capable: ECT(0)
    server = guests.start(test)
    guests.await_listener(18515)
    client = guests.start(f"{test} {GUEST4}", machine=2)
    text, _ = client.communicate(timeout=60)
    server.communicate(timeout=60)
    assert (client.returncode, server.returncode) == (0, 0), text
    return text
