"""`charkha plan` as a user meets it, in this process."""

import json
from pathlib import Path

import pytest

from emulator.cli.main import main
from tests.support.topologies import SHIPPED

LEAF_SPINE = str(SHIPPED / "leaf-spine-2x2.yaml")
ALL_TO_ALL = ["plan", "--collective", "all_to_all", "-n", "8", "-b", "8000", "--topology", LEAF_SPINE]
MODEL = "layers=4,hidden=64,sequence=32,vocabulary=128,tensor=2,pipeline=2,data=2,micro-batches=2"


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_same_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(capsys, *ALL_TO_ALL, "--transport", "zmq", "--seed", "5")
    assert found["network_bytes"] == 56_000
    assert found["seed"] == 5
    (operation,) = found["operations"]  # type: ignore[misc]
    assert operation["incast"] == {"rank": 7, "port": 7}
    # 8,000 bytes over an uplink of 20 Mbit/s, in frames of 9,038 bytes for 8,948 of payload.
    assert operation["ideal_ns"]["links"] == -(-8000 * 400 * 9038 // 8948)
    links = {link["link"]: link["even_bytes"] for link in found["links"]}  # type: ignore[attr-defined]
    assert links["leaf0:u0 > spine0:d0"] == 8000
    assert len(found["flows"]) == 56  # type: ignore[arg-type]
    assert {switch["ratio"] for switch in found["oversubscription"]} == {2.0}  # type: ignore[attr-defined]


def test_the_topology_names_the_transport_and_the_links_the_mtu(capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(capsys, *ALL_TO_ALL)
    assert found["overhead"]["wire_bytes"] == (4 << 20) + 1024 * 82 + 16  # type: ignore[index]
    small = planned(capsys, *ALL_TO_ALL, "--mtu", "1500", "--message-bytes", "4096")
    assert small["overhead"]["wire_bytes"] == 4096 + 4 * 82 + 16  # type: ignore[index]


def test_a_described_transformer_has_its_jct(capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(capsys, "plan", "--transformer", MODEL, "--topology", LEAF_SPINE)
    assert found["ranks"] == 8
    roles = {operation["role"] for operation in found["operations"]}  # type: ignore[attr-defined]
    assert roles == {"tensor", "forward", "backward", "data", "embedding", "world"}
    assert found["jct_ns"] > 0  # type: ignore[operator]


def test_observed_loads_stand_for_the_hash(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "loads.json"
    path.write_text('{"leaf0:u0 > spine0:d0": 300, "leaf0:u1 > spine1:d0": 100}')
    found = planned(capsys, *ALL_TO_ALL, "--link-loads", str(path))
    links = {link["link"]: link["even_bytes"] for link in found["links"]}  # type: ignore[attr-defined]
    assert links["leaf0:u0 > spine0:d0"] == 12_000


def test_a_run_spec_is_planned_with_its_flows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(
        "hosts: [{name: h0, per_rank: 198.18.0.0/24}, {name: h1, per_rank: 198.18.1.0/24},"
        " {name: nic, address: 198.18.9.1, peer: {}}]"
    )
    (tmp_path / "run.yaml").write_text(
        "charkha: 1\njobs: [{sweep: {collective: broadcast, ranks: 2, sizes: [3000]}}]\nnetwork: {topology: t.yaml}\n"
        "flows: [{kind: perftest, host: h0, peer: nic, iterations: 9, size_bytes: 1000}]\n"
    )
    file = str(tmp_path / "run.yaml")
    found = planned(capsys, "plan", "-f", file)
    links = {link["link"]: link["payload_bytes"] for link in found["flows_beside_links"]}  # type: ignore[attr-defined]
    assert links == {"h0:eth0 > network:port0": 9000, "network:port2 > nic:eth0": 9000}
    assert main(["plan", "-f", file]) == main(["trace", "check", "-f", file]) == 0
    shown = capsys.readouterr().out
    assert shown.count("h0:eth0 nic:eth0 8.79 KiB") == 2
    assert "h0:eth0 > network:port0" in shown
    assert main(["trace", "check", "-f", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["flows_beside"] == found["flows_beside"]
    job = "{name: %s, sweep: {collective: broadcast, ranks: 2}}"
    (tmp_path / "two.yaml").write_text(f"charkha: 1\njobs: [{job % 'a'}, {job % 'b'}]\n")
    assert main(["plan", "-f", str(tmp_path / "two.yaml")]) == 2
    assert "two.yaml: has 2 jobs" in capsys.readouterr().err
