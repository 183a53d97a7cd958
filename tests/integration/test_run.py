"""`charkha run` from the outside: what is on stdout, and whether it agrees with the samples it wrote."""

import json
import os
import signal
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from emulator.results.run_folder.reader import read_run
from tests.support.command import ANNOUNCED, COMMAND, EXAMPLE, PROGRESS, Finished, charkha, refused, succeed
from tests.support.et_files import read_et
from tests.support.loopback import NET
from tests.support.trace_files import attribute, collective, compute, write

ITERATIONS, WARMUP = 2, 1
SMALL = ("--scale-bytes", "1/64", "--iterations", ITERATIONS, "--agents", 2)
COMMUNICATIONS = 440
Rows = list[dict[str, Any]]


def _rows(folder: Path, name: str = "samples") -> Rows:
    return pq.read_table(folder / f"{name}.parquet").to_pylist()


def _play(folder: Path, *options: object, trace: Path = EXAMPLE) -> Finished:
    return succeed("run", trace, *SMALL, "--out", "run", *options, cwd=folder, quiet=True)


def _play_json(folder: Path, *options: object, trace: Path = EXAMPLE) -> dict[str, Any]:
    return json.loads(_play(folder, "--json", *options, trace=trace).stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the run was made that the tests below look at."""
    return tmp_path_factory.mktemp("default")


@pytest.fixture(scope="module")
def document(folder: Path) -> dict[str, Any]:
    return _play_json(folder)


@pytest.fixture(scope="module")
def samples(folder: Path, document: dict[str, Any]) -> Rows:
    return _rows(folder / "run")


def test_there_is_a_row_per_communication_node_and_iteration(samples: Rows) -> None:
    seen = {(row["iteration"], row["rank"], row["node_id"]) for row in samples}
    expected = {
        (iteration, rank, node.id)
        for iteration in range(-WARMUP, ITERATIONS)
        for rank in range(8)
        for node in read_et(EXAMPLE / f"transformer.{rank}.et")[1]
        if node.type >= 5
    }
    assert seen == expected
    assert len(samples) == len(seen) == COMMUNICATIONS * (ITERATIONS + WARMUP)


def test_samples_say_what_was_played(samples: Rows) -> None:
    """Sizes are those of the trace over 64; every byte that was sent to somebody was received."""
    sizes: dict[tuple[int, int], int] = {}
    for rank in range(8):
        for node in read_et(EXAMPLE / f"transformer.{rank}.et")[1]:
            for one in node.attr:
                if one.name == "comm_size":
                    sizes[rank, node.id] = max(1, round(one.int64_val / 64))
    for row in samples:
        assert row["size_bytes"] == sizes[row["rank"], row["node_id"]]
        assert 0 < row["post_ns"] <= row["done_ns"]
        assert not row["early"] or row["kind"] in ("send", "recv")
    for iteration in range(-WARMUP, ITERATIONS):
        mine = [row for row in samples if row["iteration"] == iteration]
        assert sum(row["bytes_sent"] for row in mine) == sum(row["bytes_received"] for row in mine)


def _instances(samples: Rows) -> dict[tuple[int, int], Rows]:
    found: dict[tuple[int, int], Rows] = {}
    for row in samples:
        if row["iteration"] >= 0:
            found.setdefault((row["iteration"], row["instance"]), []).append(row)
    return found


def _cct_ns(rows: Rows) -> int:
    if rows[0]["kind"] not in ("send", "recv"):
        return int(max(row["arrival_ns"] for row in rows) - max(row["post_ns"] for row in rows))
    send = next(row for row in rows if row["kind"] == "send")
    recv = next(row for row in rows if row["kind"] == "recv")
    return int(recv["arrival_ns"] - send["post_ns"])


def test_times_and_bandwidths_follow_from_the_samples(samples: Rows, document: dict[str, Any]) -> None:
    instances = _instances(samples)
    checked = 0
    for row in document["classes"]:
        kinds = ("send", "recv") if row["collective"] == "send_recv" else (row["collective"],)
        mine = [
            _cct_ns(rows)
            for rows in instances.values()
            if rows[0]["kind"] in kinds
            and (rows[0]["size_bytes"], rows[0]["algorithm"]) == (row["size_bytes"], row["algorithm"])
            and (len(kinds) == 2 or rows[0]["group_size"] == row["members"])
        ]
        median = sorted(mine)[(len(mine) - 1) // 2]
        members = row["members"]
        factor = 2 * (members - 1) / members if row["collective"] == "all_reduce" else 1
        assert row["samples"] == len(mine) == row["count"] * ITERATIONS
        assert (row["cct_p50_ns"], row["cct_max_ns"]) == (median, max(mine))
        assert row["algbw_bytes_per_s"] == pytest.approx(row["size_bytes"] / median * 1e9)
        assert row["busbw_bytes_per_s"] == pytest.approx(factor * row["algbw_bytes_per_s"])
        assert (row["cct_p99_ns"] is None) == (len(mine) < 100)
        checked += len(mine)
    assert checked == len(instances)


def test_no_member_of_a_collective_is_done_before_all_have_posted(samples: Rows) -> None:
    for rows in _instances(samples).values():
        assert _cct_ns(rows) > 0, rows


def test_the_iteration_is_the_wall_time_of_all_ranks(folder: Path, document: dict[str, Any]) -> None:
    rows = _rows(folder / "run", "iterations")
    assert len(rows) == 8 * (ITERATIONS + WARMUP)
    walls = []
    for iteration in range(ITERATIONS):
        mine = [row for row in rows if row["iteration"] == iteration]
        walls.append(max(row["end_ns"] for row in mine) - min(row["start_ns"] for row in mine))
    assert document["iteration"]["jct_ns"] == min(walls)
    assert document["iteration"]["jct_max_ns"] == max(walls)
    for row in rows:
        assert 0 <= row["overlap_ns"] <= min(row["compute_ns"], row["communication_ns"])
        assert max(row["compute_ns"], row["communication_ns"]) <= row["end_ns"] - row["start_ns"]


def test_flows_add_up_to_the_samples(folder: Path, samples: Rows) -> None:
    flows = _rows(folder / "run", "flows")
    assert sum(flow["bytes"] for flow in flows) >= sum(row["bytes_sent"] for row in samples)
    assert len({(flow["src"], flow["dst"], flow["qpn"]) for flow in flows}) == len(flows)
    assert all(flow["src"] != flow["dst"] for flow in flows)


def test_the_manifest_says_what_was_run(folder: Path, document: dict[str, Any]) -> None:
    manifest = read_run(folder / "run").manifest
    assert manifest.run_id == document["run_id"]
    assert manifest.status == "complete"
    assert manifest.command_line[:2] == ("charkha", "run")
    assert "--scale-bytes" in manifest.command_line
    assert (manifest.trace.ranks, manifest.trace.nodes) == (8, 768)
    assert manifest.trace.communication_nodes == COMMUNICATIONS
    assert manifest.scaling.bytes == pytest.approx(1 / 64)
    assert manifest.scaling.compute == "replay"
    assert (manifest.trials.attempted, manifest.trials.warmup, manifest.trials.included) == (3, 1, 2)
    expected = {"transport": "roce", "agents": 2, "iterations": ITERATIONS, "warmup": WARMUP, "credits": True}
    assert {name: manifest.parameters[name].value for name in expected} == expected
    assert [host.ranks for host in manifest.hosts] == [4, 4]
    assert all(1 << 20 < (host.peak_rss_bytes or 0) < 1 << 30 for host in manifest.hosts)
    assert all(host.steal_fraction is not None and 0 <= host.steal_fraction < 1 for host in manifest.hosts)
    present = {path.name for path in (folder / "run").iterdir()}
    assert sorted(present - {"flow_events.parquet"}) == [  # a busy host may repeat packets
        "compute.parquet",
        "flows.parquet",
        "iterations.parquet",
        "manifest.json",
        "report.html",
        "samples.parquet",
        "trace",
    ]


def test_the_table_says_that_the_run_is_scaled(tmp_path: Path) -> None:
    lines = _play(tmp_path, "--compute", "skip", "--iterations", 1).stdout.splitlines()
    assert lines[0].startswith("Played 1 iteration of transformer-8r on 8 ranks: ")
    assert any(line.endswith("8 ranks, 1 iteration after 1 warm-up") for line in lines)
    assert any(line.startswith("Scaled") and "0.015625" in line and "compute skipped" in line for line in lines)
    assert sum(line.startswith(("all_reduce", "send_recv")) for line in lines) == 7
    assert lines[-3:] == ["Run folder: run", "Report: run/report.html", "No rules: --expect example"]
    assert all(row["compute_ns"] == 0 for row in _rows(tmp_path / "run", "iterations"))


def test_without_credits_early_payload_is_counted(tmp_path: Path) -> None:
    document = _play_json(tmp_path, "--credits", "off", "--compute", "skip")
    samples = _rows(tmp_path / "run")
    early = [row for row in samples if row["early"] and row["iteration"] >= 0 and row["kind"] == "all_reduce"]
    assert document["totals"]["early"] == len(early)
    assert len({row["instance"] for row in early}) > 0, "nothing came early, so nothing was tested"
    assert not read_run(tmp_path / "run").manifest.parameters["credits"].value


@pytest.mark.parametrize(("agents", "shares"), [(1, [8]), (3, [2, 3, 3])])
def test_agents_share_the_ranks_and_the_algorithm_is_the_one_asked_for(
    tmp_path: Path, agents: int, shares: list[int]
) -> None:
    document = _play_json(
        tmp_path, "--agents", agents, "--compute", "skip", "--algorithm", "all_reduce=double_binary_tree"
    )
    assert {row["algorithm"] for row in document["classes"]} == {"double_binary_tree", ""}
    assert [host.ranks for host in read_run(tmp_path / "run").manifest.hosts] == shares


SLOW_PORTS = f"""
name: slow
hosts:
  - {{name: even, per_rank: {NET}.0.0/25, rate: 100Mbit}}
  - {{name: odd, per_rank: {NET}.0.128/25, rate: 100Mbit}}
placement: round_robin
"""


def test_a_topology_with_rates_gives_an_ideal(tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(SLOW_PORTS)
    document = _play_json(tmp_path, "--compute", "skip", "--topology", "slow.yaml", "--algorithm", "all_reduce=ring")
    addresses = read_run(tmp_path / "run").manifest.topology["addresses"]
    assert addresses[:4] == [f"{NET}.0.{host}" for host in (1, 129, 2, 130)]
    crossing = [
        rows
        for rows in _instances(_rows(tmp_path / "run")).values()
        if rows[0]["group_size"] == 2 and len({row["rank"] % 2 for row in rows}) == 2
    ]
    assert len(crossing) > 100
    for rows in crossing:
        payload_ns = rows[0]["size_bytes"] * 8 * 10  # 10 ns a bit; each of two ranks sends the size once
        assert payload_ns <= rows[0]["ideal_ns"] <= 2 * payload_ns + 10_000
    largest = max(document["classes"], key=lambda row: row["count"])
    ideal_ns = next(rows[0]["ideal_ns"] for rows in crossing if rows[0]["size_bytes"] == largest["size_bytes"])
    assert largest["ideal_percent"] == pytest.approx(100 * ideal_ns / largest["cct_p50_ns"])
    assert document["iteration"]["roofline_ratio"] > 0


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    trace = tmp_path / "[bold]trace"
    trace.mkdir()
    for rank in range(2):
        write(trace / f"t.{rank}.et", [collective(1, attribute("[/odd]", int64_val=1))])
    finished = succeed("run", trace.name, "--iterations", 1, "--out", "[red]run", cwd=tmp_path, quiet=True)
    assert any(line.startswith("[bold]trace, 2 ranks") for line in finished.stdout.splitlines())
    assert "unknown communication attribute [/odd] (2 times)" in finished.stdout
    assert "Run folder: [red]run" in finished.stdout.splitlines()


def test_paths_that_are_no_text_are_as_good_as_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    trace = tmp_path / "caf\udce9"
    trace.mkdir()
    for rank in range(2):
        write(trace / f"t.{rank}.et", [collective(1)])

    succeed("run", trace, "--iterations", 1, "--warmup", 0, "--out", trace / "run", cwd=tmp_path, quiet=True)
    assert read_run(trace / "run").manifest.trace.path == str(trace)


def test_a_rank_without_nodes_and_a_world_without_communication_are_played(tmp_path: Path) -> None:
    write(tmp_path / "t.0.et", [compute(1, duration_micros=1500)])
    write(tmp_path / "t.1.et", [])
    document = _play_json(tmp_path, trace=tmp_path / "t")
    assert document["classes"] == []
    assert document["iteration"]["jct_ns"] >= 1_500_000


@pytest.mark.slow
def test_a_long_rank_is_streamed_through_its_window(tmp_path: Path) -> None:
    """Of 4,096 nodes an agent holds at once."""
    succeed(
        *("trace", "generate", "collective", "all_reduce", "-n", 2, "-b", 64, "--count", 4500, "--out", "long"),
        cwd=tmp_path,
    )
    document = _play_json(tmp_path, "--iterations", 1, "--warmup", 0, "--compute", "skip", trace=tmp_path / "long")
    assert document["totals"]["samples"] == 9000
    mine = sorted((row for row in _rows(tmp_path / "run") if row["rank"] == 0), key=lambda row: row["index_in_group"])
    assert all(before["done_ns"] <= after["post_ns"] for before, after in pairwise(mine))


def test_a_folder_in_use_is_left_alone(folder: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    before = {path: path.stat().st_mtime_ns for path in (folder / "run").rglob("*")}
    assert "run: is not empty" in refused("run", EXAMPLE, *SMALL, "--out", "run")
    assert {path: path.stat().st_mtime_ns for path in (folder / "run").rglob("*")} == before


def test_a_run_that_measured_nothing_says_so(tmp_path: Path) -> None:
    by_hand = ("--listen", "unix:sock", "--join-timeout", "0.5", "--out", "run")
    finished = charkha("run", "--by-hand", EXAMPLE, *SMALL, *by_hand, cwd=tmp_path)
    assert finished.code == 1
    assert "nothing was measured; how the run ended is in run" in finished.stderr
    assert read_run(tmp_path / "run").manifest.reason


def test_a_folder_that_cannot_be_written_is_the_hosts_lack(tmp_path: Path) -> None:
    """Rights are looked at before the run; to root they say nothing, and only the attempt fails."""
    finished = charkha("run", EXAMPLE, *SMALL, "--out", "/proc/charkha/run", cwd=tmp_path)
    expected = (2, "cannot be written: Permission denied") if os.geteuid() else (3, "cannot write results")
    assert finished.code == expected[0]
    assert f"/proc/charkha/run: {expected[1]}" in finished.error


def test_a_folder_named_agents_is_not_taken_for_ours(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text("raise SystemExit('not ours')")
    _play(tmp_path, "--compute", "skip", "--iterations", 1)
    assert [path.name for path in tmp_path.iterdir() if path.name != "run"] == ["agents"]


def test_without_out_the_run_lies_under_runs(tmp_path: Path) -> None:
    finished = charkha("run", EXAMPLE, *SMALL, "--compute", "skip", "--warmup", 0, "--json", cwd=tmp_path)
    folder = Path(json.loads(finished.stdout)["run_folder"])
    assert folder.parent == Path("runs")
    assert folder.name.endswith("-transformer-8r")
    assert read_run(tmp_path / folder).manifest.trials.warmup == 0


@pytest.mark.parametrize(
    ("reader", "code", "said"),
    [
        ("full disk", 3, "charkha: the result cannot be written to stdout (No space left on device)\n"),
        ("had enough", 128 + signal.SIGPIPE, ""),
    ],
)
def test_a_stdout_that_takes_nothing_does_not_make_it_a_failed_run(
    tmp_path: Path, reader: str, code: int, said: str
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [*COMMAND, "run", EXAMPLE, *map(str, SMALL), "--compute", "skip", "--out", "run"]
    with os.fdopen(writing) as nobody, Path("/dev/full").open("w") as full:
        stdout = full if reader == "full disk" else nobody
        done = subprocess.run(command, cwd=tmp_path, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, PROGRESS.sub("", ANNOUNCED.sub("", done.stderr))) == (code, said)
    assert read_run(tmp_path / "run").manifest.status == "complete"


def test_a_long_folder_for_temporary_files_is_the_hosts_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setenv("TMPDIR", str(deep))
    finished = charkha("run", EXAMPLE, *SMALL, "--out", "run", cwd=tmp_path)
    assert finished.code == 3
    assert "set TMPDIR to a shorter path" in finished.stderr.splitlines()[-1]
    assert list(deep.iterdir()) == []
