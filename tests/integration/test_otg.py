"""Open Traffic Generator over HTTP: who may ask, and snappi from PyPI, which drives a run and reads its metrics."""

import base64
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from charkha.service import Role, State
from tests.support.command import ROOT
from tests.support.otg import configuration
from tests.support.service import add_users, in_this_process, running

SNAPPI = os.environ.get("CHARKHA_SNAPPI", sys.executable if importlib.util.find_spec("snappi") else "")
"""A Python that has snappi, which wants an older grpcio than Charkha."""
START, STOP = ({"traffic": {"ccl": {"state": state}}} for state in ("start", "stop"))
METRICS = {"choice": "ccl"}


async def test_a_client_configures_starts_and_stops(tmp_path: Path) -> None:
    tokens = add_users(tmp_path, ann=Role.OPERATOR, eve=Role.VIEWER)
    async with in_this_process(tmp_path) as (routes, url), aiohttp.ClientSession() as session:

        async def asked(path: str, document: Any, user: str = "ann", token: str = "ann") -> Any:
            given = base64.b64encode(f"{user}:{tokens[token]}".encode()).decode()
            headers = {"Authorization": f"Basic {given}"}
            async with session.post(f"{url}{path}", json=document, headers=headers) as answer:
                return answer.status, await answer.json()

        base, store = "/otg/loopback", routes.service.store
        status, answer = await asked(f"{base}/monitor/metrics", METRICS)
        assert (status, answer["code"]) == (409, 409)
        assert "set no configuration for loopback" in answer["errors"][0]
        assert (await asked(f"{base}/config", configuration(), "eve", "eve"))[0] == 403
        assert (await asked(f"{base}/config", configuration(), "ann", "eve"))[0] == 401
        assert (await asked("/api/v1/runs", {}))[0] == 401, "HTTP Basic is for OTG only"
        status, answer = await asked(f"{base}/config", configuration() | {"ports": []})
        assert (status, answer["errors"][0][:6]) == (400, "ports:")
        assert (await asked("/otg/nowhere/config", configuration()))[0] == 404

        status, answer = await asked(f"{base}/config", configuration())
        assert (status, answer["warnings"][0][:13]) == (200, "experimental:")
        assert (await asked(f"{base}/control/state", START))[0] == 200
        (run,) = store.queue("loopback")
        assert (run.user, run.name, run.state) == ("ann", "demo: step", State.WAITING)
        assert (await asked(f"{base}/control/state", START))[0] == 409
        assert (await asked(f"{base}/config", configuration()))[0] == 409
        _, answer = await asked(f"{base}/monitor/metrics", METRICS)
        assert answer["ccl_metrics"] == [
            {"communicator_name": "tp", "stage_name": "step", "stage_index": 0, "iteration_count": 0}
        ]
        status, answer = await asked(f"{base}/monitor/metrics", {"ccl": {"column_names": ["l1_alg_bw"]}})
        assert (status, "'l1_alg_bw' is none of jct" in answer["errors"][0]) == (400, True)
        assert (await asked(f"{base}/control/state", STOP))[0] == 200
        assert store.run(run.id).state is State.CANCELLED

        assert (await asked(f"{base}/control/state", START))[0] == 200
        (run,) = store.queue("loopback")
        store.end_run(run.id, State.FAILED, reason="a port is in use")
        status, answer = await asked(f"{base}/monitor/metrics", METRICS)
        assert (status, answer["errors"]) == (409, [f"run {run.id} (demo: step) failed: a port is in use"])


@pytest.mark.skipif(not SNAPPI, reason="needs snappi: name a Python that has it in CHARKHA_SNAPPI")
def test_snappi_drives_a_run_as_the_page_says(tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "otg.md").read_text(), re.DOTALL)
    tokens = add_users(tmp_path, ann=Role.OPERATOR)
    netrc = tmp_path / "netrc"
    netrc.touch(mode=0o600)
    netrc.write_text(f"machine 127.0.0.1 login ann password {tokens['ann']}\n")
    with running(tmp_path) as service:
        here = script.replace("http://127.0.0.1:8760/", service.url)
        assert here != script
        environment = {**os.environ, "NETRC": str(netrc)}
        command = [SNAPPI, "-c", here]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        avg_jct_s, bus_bw_gbps = map(float, done.stdout.split())
        client = service.client(tokens["ann"])
        report = client.get_report(1)
        assert client.get_run(1).name == "demo: step"
    assert report["iteration"]["jct_min_ns"] <= avg_jct_s * 1e9 <= report["iteration"]["jct_max_ns"]
    assert bus_bw_gbps == pytest.approx(8e6 / avg_jct_s / 1e9)
