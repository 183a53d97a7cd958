"""The verbs transport with RDMA devices of two guests, alone and together with the software NIC."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import pyarrow.parquet as pq
import pytest

from tests.guest.image import NoGuest
from tests.guest.machine import Guest
from tests.guest.python_root import PROJECT, pack
from tests.guest.verbs_bed import FIRST_HERE, FIRST_THERE, PLAYED, SERVER_PORT
from tests.support.command import LONGEST_S
from tests.support.full import IS_FULL

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

GUESTS = ("10.99.0.2", "10.99.0.3")
HERE = ("10.99.0.9", "10.99.0.10")
CONTROLLER = "10.99.0.20"
MOST_RANKS = 16
TOKEN = "a token of at least sixteen characters"


@pytest.fixture(scope="module")
def guests() -> Iterator[Guest]:
    machine = Guest(namespace=f"rxp{os.getpid()}", machines=2, memory_mib=1536)
    try:
        root = machine.folder / "root.tar"
        machine.up()
        pack(root)
        with ThreadPoolExecutor() as both:
            list(both.map(lambda number: _unpack(machine, root, number), (1, 2)))
        for host in (HERE[1], CONTROLLER, *(f"10.99.0.{FIRST_HERE + rank}" for rank in range(MOST_RANKS))):
            _ip(machine, f"addr add {host}/24 dev gen0")
        yield machine
    except NoGuest as error:
        pytest.skip(f"two guests with rdma_rxe and Python {error}")
    finally:
        machine.down()


def _unpack(machine: Guest, root: Path, number: int) -> None:
    machine.put(root, machine=number)
    addresses = " ".join(f"10.99.0.{FIRST_THERE + rank}" for rank in range(MOST_RANKS) if rank % 2 == number - 1)
    add = f"for a in {addresses}; do ip addr add $a/24 dev eth0; done"
    machine.run(f"cd / && tar xf /root/root.tar && rm /root/root.tar && {add}", machine=number, timeout_s=120)


def _ip(machine: Guest, words: str) -> None:
    subprocess.run(["ip", "-n", f"{machine.namespace}-gen", *words.split()], check=True)


@pytest.mark.parametrize(("ends", "path_mtu"), [("gh", 1024), *([("g", 1024), ("hg", 4096)] if IS_FULL else [])])
def test_conformance(guests: Guest, ends: str, path_mtu: int) -> None:
    """Ranks in both guests; ranks in turn in a guest and here."""
    servers = [
        guests.start(f"cd /opt/charkha; PYTHONPATH=. python3.11 rank_server.py 0.0.0.0 {SERVER_PORT}", machine=number)
        for number in (1, 2)
    ]
    try:
        for number in (1, 2):
            guests.await_listener(SERVER_PORT, machine=number)
        command = [sys.executable, "-m", "tests.guest.verbs_bed", ",".join(GUESTS), str(path_mtu), ends]
        shown = subprocess.run([*guests.here, *command], capture_output=True, text=True, cwd=PROJECT, timeout=240)
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout) == {"played": len(PLAYED), "failed": {}}
    finally:
        for number in (1, 2):
            guests.run("kill $(pidof python3.11) || true", machine=number)
        for server in servers:
            server.communicate(timeout=60)


class Run:
    """A bench over two ranks in guests and two here."""

    def __init__(self, guests: Guest, folder: Path, *words: str) -> None:
        hosts = {"g1": GUESTS[0], "g2": GUESTS[1], "h1": HERE[0], "h2": HERE[1]}
        topology = {
            "name": "software-and-rdma",
            "hosts": [{"name": name, "address": address} for name, address in hosts.items()],
            "switches": [{"name": "br0", "kind": "physical"}],
            "links": [
                {"endpoints": [f"{name}:eth0", f"br0:p{number}"], "mtu": 9000} for number, name in enumerate(hosts)
            ],
            "agents": {"g1": "g1", "g2": "g2", "h1": "h", "h2": "h"},
            "transport": {"name": "verbs", "software_nic": ",".join(HERE)},
        }
        (folder / "topology.yaml").write_text(json.dumps(topology))
        (folder / "token").write_text(TOKEN)
        (folder / "token").chmod(0o600)
        self.folder, self._guests = folder / "run", guests
        command = [sys.executable, "-m", "emulator", "bench", "all_reduce", "-n", "4", "--no-report", *words]
        command += ["--topology", "topology.yaml", "--listen", f"{CONTROLLER}:4790", "--token-file", "token"]
        command += ["--insecure"]
        self.process = subprocess.Popen(
            [*guests.here, *command, "--out", "run"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._await_controller()
        agent = f"-m agents --controller {CONTROLLER}:4790 --name"
        greeting = " ".join(f"'{line}'" for line in (TOKEN, *hosts.values()))
        self._agents = [
            guests.start(f"cd /opt/charkha; printf '%s\\n' {greeting} | python3.11 {agent} g{number}", machine=number)
            for number in (1, 2)
        ]
        self._agents.append(
            subprocess.Popen(
                [*guests.here, "sh", "-c", f"printf '%s\\n' {greeting} | {sys.executable} {agent} h"],
                start_new_session=True,
            )
        )

    def _await_controller(self) -> None:
        end = time.monotonic() + LONGEST_S
        look = [*self._guests.here, "ss", "-Hltn", "sport", "= :4790"]
        while not subprocess.run(look, capture_output=True, check=True).stdout.strip():
            assert time.monotonic() < end
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.05)

    def end(self) -> tuple[int, str]:
        """Wait until it is over; returns the exit code and what it printed."""
        output, errors = self.process.communicate(timeout=120)
        return self.process.returncode, output + errors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        for agent in self._agents:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(agent.pid, signal.SIGKILL)
            agent.communicate()


def test_an_all_reduce_over_software_and_rdma_ends_moves_what_its_algorithm_says(guests: Guest, tmp_path: Path) -> None:
    sizes, iterations = (64 << 10, 1 << 20, *([8 << 20] if IS_FULL else [])), 2
    words = ["-b", ",".join(map(str, sizes)), "--algorithm", "all_reduce=ring", "--iterations", str(iterations)]
    with Run(guests, tmp_path, *words) as run:
        code, text = run.end()
    assert code == 0, text
    flows = pq.read_table(run.folder / "flows.parquet").to_pylist()
    moved = {(flow["src"], flow["dst"]): flow["bytes"] for flow in flows if flow["bytes"]}
    each = sum(2 * 3 * size // 4 for size in sizes) * (iterations + 1)  # warm-up
    assert moved == {(rank, (rank + 1) % 4): each for rank in range(4)}
    hosts = json.loads((run.folder / "manifest.json").read_text())["hosts"]
    facts = [
        (host["transport"][f"rank_{rank}.device"]["value"], host["transport"][f"rank_{rank}.observed"]["value"])
        for host, rank in ((hosts[0], 0), (hosts[1], 1), (hosts[2], 2), (hosts[2], 3))
    ]
    assert facts == 2 * [("rxe0", "completion queue")] + 2 * [("software NIC", "receiving process")]


def test_a_guest_that_dies_is_named(guests: Guest, tmp_path: Path) -> None:
    """Last: there is one guest less afterwards."""
    with Run(guests, tmp_path, "-b", "8M", "-e", "8M", "--iterations", "1000") as run:
        before = guests.counters()["sent_pkts"]
        end = time.monotonic() + LONGEST_S
        while guests.counters()["sent_pkts"] < before + 1000:
            assert time.monotonic() < end
            time.sleep(0.1)
        guests.kill(machine=2)
        code, text = run.end()
    assert code != 0
    assert "g2" in text, text
