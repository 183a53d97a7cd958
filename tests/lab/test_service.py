"""Two users at one switch, seen at its port: frames of one run only, also when the service is killed in between."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.annexes.service.configuration import ServiceFolder
from emulator.annexes.service.model import Dut, Role, State
from emulator.annexes.service.serving import opened
from tests.integration.test_service import wait_until_it_plays
from tests.support.full import IS_FULL
from tests.support.namespaces import Capture, Namespace, captured
from tests.support.service import add_users, running
from tests.support.star_lab import Lab, raised, star

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow]
SHARED_PORT = "p2"
"""Of the switch, towards h2, which both users have."""
MOST_S = 1.0
"""After the service was killed, frames may come for so long."""


@pytest.fixture
def lab(lab_host: None, tmp_path: Path) -> Iterator[Lab]:
    with raised(tmp_path, star(3, rate="1Gbit", mtu=4200), "--service", "service") as made:
        yield made


def spec(*hosts: str, iterations: int) -> str:
    sweep = {"collective": "send_recv", "ranks": 2, "sizes": ["64K"]}
    job = {"sweep": sweep, "hosts": hosts, "iterations": iterations}
    return json.dumps({"charkha": 1, "jobs": [job], "network": {"topology": "lab"}, "observe": {"report": False}})


def made_service(folder: Path, lab: Lab) -> dict[str, str]:
    """A service of ann and bob, whose device is a lab; returns their tokens."""
    tokens = add_users(folder, ann=Role.OPERATOR, bob=Role.OPERATOR)
    (folder / "serve.yaml").write_text(f"topologies: ['{lab.folder}']")
    with opened(ServiceFolder(folder)) as store:
        store.put_dut(Dut(name="switch", topologies=("lab",), spec={"network": {"lab": lab.id}}))
    return tokens


def times_s(capture: Capture, host: int) -> list[float]:
    """When frames from or to a host passed, s since 1970."""
    only = f"ip.addr == 198.18.{host + 1}.0/24"
    words = ["tshark", "-n", "-r", str(capture.path), "-Y", only, "-T", "fields", "-e", "frame.time_epoch"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    return sorted(map(float, shown.split()))


@pytest.mark.skipif(not IS_FULL, reason="takes 10 s: CHARKHA_FULL=1")
def test_no_frame_of_the_second_run_before_the_first_has_ended(lab: Lab) -> None:
    folder = lab.folder / "service"
    tokens = made_service(folder, lab)
    (lab.folder / "captured").mkdir()
    switch = Namespace(f"charkha-{lab.id}-sw0")
    with captured(switch, SHARED_PORT, lab.folder / "captured" / "port.pcap", snap_bytes=64) as capture:
        with running(folder) as service:
            ann, bob = (service.client(tokens[name]) for name in ("ann", "bob"))
            (first,) = ann.submit(dut="switch", spec=spec("h0", "h2", iterations=100_000))
            (second,) = bob.submit(dut="switch", spec=spec("h1", "h2", iterations=3))
            wait_until_it_plays(ann, first.id)
            service.process.kill()
            killed_s = time.time()
        with running(folder) as service:
            bob = service.client(tokens["bob"])
            *_, last = bob.follow_run(second.id)
            assert (last.run.state, bob.get_run(first.id).state) == (State.COMPLETE, State.INTERRUPTED)
    assert capture.dropped == 0
    of_ann, of_bob = times_s(capture, 0), times_s(capture, 1)
    assert of_ann
    assert of_bob
    assert of_ann[-1] < killed_s + MOST_S
    assert of_ann[-1] < of_bob[0]


def test_a_service_plays_in_its_own_lab_and_in_no_other(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> None:
    own, other = lab.folder / "service", tmp_path_factory.mktemp("other") / "service"
    for folder, state in ((own, State.COMPLETE), (other, State.FAILED)):
        tokens = made_service(folder, lab)
        with running(folder) as service:
            ann = service.client(tokens["ann"])
            (run,) = ann.submit(dut="switch", spec=spec("h0", "h2", iterations=1))
            *_, last = ann.follow_run(run.id)
            assert last.run.state is state, last.run.reason
    assert last.run.reason is not None
    assert f"lab {lab.id} belongs to the service in {own}" in last.run.reason
    assert f"--service {other}`" in last.run.reason
