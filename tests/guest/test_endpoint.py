"""The software NIC against stock verbs in the guest: every verb, refusals, receivers that are not ready, rdma_cm."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.guest.endpoint import CONTROL, RPING_PORT
from tests.guest.image import VERBS_END, NoGuest
from tests.guest.machine import GID_INDEX, GUEST4, GUEST6, HERE4, HERE6, Guest

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


def played(guest: Guest, scenario: str, *, ip: int = 4, path_mtu: int = 1024, receives: int = 64) -> dict[str, Any]:
    """What a scenario shows."""
    gid = GID_INDEX[ip]
    program = guest.start(f"{VERBS_END} {CONTROL[1]} {gid} {path_mtu} 0x100000 {receives} 16384")
    guest.await_listener(CONTROL[1])
    try:
        return _this_end(guest, scenario, ip, path_mtu)
    finally:
        guest.run(f"pkill {VERBS_END} || true")
        program.communicate(timeout=60)


def _this_end(guest: Guest, scenario: str, ip: int, path_mtu: int) -> dict[str, Any]:
    done = subprocess.run(
        _command(guest, scenario, ip, path_mtu), capture_output=True, text=True, timeout=60, check=False
    )
    assert not done.returncode, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _command(guest: Guest, scenario: str, ip: int, path_mtu: int) -> list[str]:
    hosts = (HERE4, GUEST4) if ip == 4 else (HERE6, GUEST6)
    return [*guest.here, sys.executable, "-m", "tests.guest.endpoint", scenario, *hosts, str(path_mtu)]


def _serving_rping(guest: Guest) -> dict[str, Any]:
    """What this end shows as the server of an rping over IPv6, whose client validates the data."""
    with subprocess.Popen(_command(guest, "rping_server", 6, 1024), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "listening\n"
        guest.run(f"rping -c -a {HERE6} -p {RPING_PORT} -C 1000 -S 100 -V", timeout_s=60)
        shown: dict[str, Any] = json.loads(server.communicate(timeout=60)[0])
        return shown


def test_the_software_nic_and_linux_rxe_agree() -> None:
    """One test, as one machine plays all scenarios."""
    guest = Guest()
    try:
        guest.up()
        for ip, path_mtu in ((4, 1024), (6, 4096)):
            shown = played(guest, "transfers", ip=ip, path_mtu=path_mtu)
            assert shown == {"wrong": [], "reason": "", "retransmits": 0, "drops": {}}
        shown = played(guest, "refused_by_us")
        assert "remote access error" in shown["said"]
        print(f"the guest learned of the wrong key after {1000 * shown['took_s']:.1f} ms")
        shown = played(guest, "refused_by_the_guest")
        assert "a key or range it does not allow" in shown["reason"]
        shown = played(guest, "not_ready_here")
        assert (shown["early"], shown["messages"]) == (0, 1)
        assert " ok " in shown["said"]
        assert guest.counters()["rcvd_rnr_err"] > 0
        shown = played(guest, "not_ready_there", receives=0)
        assert (shown["early"], shown["reason"]) == (0, "")
        assert shown["rnr_naks"] > 0
        assert " ok " in shown["said"]
        server = guest.start(f"rping -s -a {GUEST4} -p {RPING_PORT} -C 1000 -S 100 -V")
        shown = _this_end(guest, "rping", 4, 1024)
        assert shown == {"rounds": 1000, "different": 0, "reason": ""}
        server.communicate(timeout=60)
        assert _serving_rping(guest) == {"rounds": 1000, "reason": ""}
    except NoGuest as error:
        pytest.skip(f"a guest with rdma_rxe {error}")
    finally:
        guest.down()
