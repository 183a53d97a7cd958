"""Stock perftest with -R in both roles, and flows of a run N to 1 at one RDMA device."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.guest.image import NoGuest
from tests.guest.machine import GUEST4, HERE4, Guest
from tests.guest.matrix import COMMAND, unsound, until
from tests.support.full import IS_FULL

pytestmark = [pytest.mark.lab, pytest.mark.timeout(420)]

TOOLS = {
    "write": "ib_write_bw", "send": "ib_send_bw", "read": "ib_read_bw", "write-lat": "ib_write_lat",
    "send-lat": "ib_send_lat", "read-lat": "ib_read_lat",
}  # fmt: skip
QUICK = ("write", "send-lat")
"""All with CHARKHA_FULL: these tools sleep for seconds."""
SIZE_BYTES, ITERATIONS, LOSS_PERCENT, LONGEST_S = 10_001, 25, 2, 100
FLOW_ADDRESSES = ("10.99.0.21", "10.99.0.22", "10.99.0.23")


@contextmanager
def _booted() -> Iterator[Guest]:
    guest = Guest()
    try:
        guest.up()
        yield guest
    except NoGuest as error:
        pytest.skip(f"a guest with rdma_rxe {error}")
    finally:
        guest.down()


def test_rdma_cm_connects_stock_tools_in_both_roles(tmp_path: Path) -> None:
    """One test, as one machine plays all."""
    problems = {}
    with _booted() as guest:
        guest.lose(LOSS_PERCENT)
        for verb in TOOLS if IS_FULL else QUICK:
            for role in ("connect", "serve"):
                file = tmp_path / f"{verb}-{role}.pcap"
                with guest.capturing("tap1", file, namespace=guest.namespace):
                    found = list(_played(guest, verb, role))
                    time.sleep(0.05)
                problems[verb, role] = found or list(unsound(file))
    assert {cell: found for cell, found in problems.items() if found} == {}


def _played(guest: Guest, verb: str, role: str) -> Iterator[str]:
    """Play a test; yields what is wrong."""
    pairs = 1 if verb.endswith("-lat") else 4
    stock = f"{TOOLS[verb]} -R -F -s {SIZE_BYTES} -n {ITERATIONS}" + (f" -q {pairs}" if pairs > 1 else "")
    words = ["connect", GUEST4] if role == "connect" else ["serve", "--from", GUEST4, "--address", HERE4]
    options = ["--verb", verb, "--size", SIZE_BYTES, "--iters", ITERATIONS, "--qps", pairs, "--rdma-cm", "--json"]
    command = [*guest.here, *COMMAND, "agent", "peer", *words, *map(str, options)]
    if role == "connect":
        theirs, ours = guest.start(stock), _start_once(lambda: _device_listens(guest), command)
    else:
        ours = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: _here_listens(guest))
        theirs = guest.start(f"{stock} {HERE4}")
    try:
        output, errors = ours.communicate(timeout=LONGEST_S)
        text, _ = theirs.communicate(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        ours.kill()
        theirs.kill()
        guest.run("pkill ib_ || true")
        yield f"not over after {LONGEST_S} s"
        return
    if ours.returncode or theirs.returncode:
        yield f"Charkha exits with {ours.returncode}: {errors[-300:]}; the tool with {theirs.returncode}: {text[-300:]}"
        return
    result = json.loads(output)
    moved = result["sent" if role == "connect" else "received"]["messages"]
    if moved != pairs * ITERATIONS:
        yield f"{moved} messages instead of {pairs * ITERATIONS}"


def _start_once(condition: Any, command: list[str]) -> subprocess.Popen[str]:
    until(condition)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _device_listens(guest: Guest) -> bool:
    return "state LISTEN" in guest.run("rdma resource show cm_id")


def _here_listens(guest: Guest) -> bool:
    shown = subprocess.run([*guest.here, "ss", "-Hlun", "sport", "= :4791"], capture_output=True, check=True)
    return bool(shown.stdout.strip())


@pytest.mark.skipif(not IS_FULL, reason="an emulated guest starves beside other workers: CHARKHA_FULL=1")
def test_flows_of_a_run_meet_at_one_device(tmp_path: Path) -> None:
    hosts: list[dict[str, Any]] = [{"name": "ranks", "per_rank": "127.1.0.0/24", "slots": 2}]
    hosts += [{"name": f"h{n}", "addresses": [one], "slots": 1} for n, one in enumerate(FLOW_ADDRESSES)]
    hosts.append({"name": "nic", "address": GUEST4, "peer": {}})
    (tmp_path / "t.yaml").write_text(json.dumps({"hosts": hosts, "placement": {"0": "ranks", "1": "ranks"}}))
    job = {"sweep": {"collective": "all_reduce", "ranks": 2, "sizes": ["1M"]}, "iterations": 100}
    flow = {"kind": "perftest", "host": [f"h{n}" for n in range(3)], "peer": "nic", "size_bytes": SIZE_BYTES}
    document = {"jobs": [job], "flows": [{**flow, "path_mtu": 1024}], "network": {"topology": "t.yaml"}}
    (tmp_path / "run.yaml").write_text(json.dumps(document))
    with _booted() as guest:
        for address in FLOW_ADDRESSES:
            subprocess.run([*guest.here, "ip", "address", "add", f"{address}/24", "dev", "gen0"], check=True)
        tools = [guest.start(f"ib_write_bw -F -x 1 -s {SIZE_BYTES} -p {18515 + n}") for n in range(3)]
        for n in range(3):
            guest.await_listener(18515 + n)
        file = tmp_path / "tap.pcap"
        with guest.capturing("tap1", file, namespace=guest.namespace):
            done = subprocess.run(
                [*guest.here, *COMMAND, "run", "-f", "run.yaml", "--out", "run", "--json"],
                cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            shown = [tool.communicate(timeout=60)[0] for tool in tools]
            time.sleep(0.05)
        assert done.returncode == 0, done.stderr
        assert [tool.returncode for tool in tools] == [0, 0, 0], shown
        rows = json.loads(done.stdout)["flow_results"]
        assert [(row["host"], row["is_complete"]) for row in rows] == [("h0", True), ("h1", True), ("h2", True)]
        for row, text in zip(rows, shown, strict=True):
            assert f" {SIZE_BYTES}      {row['messages']} " in text
        assert list(unsound(file)) == []
