"""`charkha agent calibrate` over loopback, and runs that are held against it."""

import json
from pathlib import Path

import pytest

from tests.support.command import charkha, succeed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    succeed("trace", "generate", "collective", "all_reduce", "-n", 2, "-b", "1M", "--out", "trace", cwd=tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_run_is_held_against_what_the_tester_does_alone(folder: Path) -> None:
    document = succeed("agent", "calibrate", "--transport", "zmq", "--ranks", 2, "--json", cwd=folder).document
    (cost,) = document["transports"]
    assert Path(document["file"]) == folder / "state" / "charkha" / "calibration.json"
    assert (cost["transport"], cost["ranks"], document["where"]) == ("zmq", 2, "loopback")
    assert cost["rates"][-1][0] == 2 << 20
    assert all(1e6 < rate < 1e12 for _, rate in cost["rates"])
    assert 0 < cost["message_ns"] == cost["step_ns"] / 2
    assert document["timer"]["alarms"] == 1000
    assert document["timer"]["p50_ns"] <= document["timer"]["p99_ns"] <= document["timer"]["max_ns"]

    zmq = ("--transport", "zmq", "--iterations", 1)
    played = json.loads(charkha("run", "trace", *zmq, "--json", "--out", "run", cwd=folder).stdout)
    (row,) = played["classes"]
    assert row["tester_percent"] > 0
    assert row["tester_limited"] is (row["tester_percent"] >= 90)
    used = json.loads((folder / "run" / "manifest.json").read_text())["calibration"]
    assert used["rates"] == cost["rates"]

    other = charkha("run", "trace", *zmq, "--json", "--message-bytes", "64K", "--out", "o", cwd=folder)
    assert "has no zmq with message_bytes 65536: nothing is marked" in other.stderr
    assert json.loads(other.stdout)["classes"][0]["tester_limited"] is None

    path = folder / "state" / "charkha" / "calibration.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"host_digest": "0"}))
    asked = charkha("run", "trace", *zmq, "--calibration", path, "--out", "asked", cwd=folder)
    assert (asked.code, "was made with a different host" in asked.error) == (2, True)
