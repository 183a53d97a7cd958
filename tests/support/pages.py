"""Every kind of page as files, written from made-up results: long names, wide tables, all sections."""

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import aiohttp
from msgspec.structs import replace

from emulator.annexes.series.suite_reports import profiles_page, suite_page
from emulator.annexes.series.sweep_page import sweep_page
from emulator.annexes.service.history import compare_folders, trend_of, trend_page
from emulator.annexes.service.model import Role, State
from emulator.annexes.telemetry.live_page import Snapshots
from emulator.annexes.trace_kit.page import trace_page
from emulator.control.observations import FlowCounters
from emulator.control.parameter import Parameter
from emulator.results.run_folder.manifest import Exclusion, TimeAxis, TraceFacts, Trials
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.verdict.rules import RULES_FILE, rules_file
from emulator.views.html.comparison_page import comparison_page
from emulator.views.html.facts import read_facts
from emulator.views.html.page.document import Page, render
from emulator.views.html.run_page import run_page
from tests.support import steps
from tests.support.recorded import three_versions
from tests.support.repeated import write_runs
from tests.support.runs import Row, collective, ranks, write_run
from tests.support.service import add_users, in_this_process
from tests.support.traces import coll, node
from tests.support.viewed import viewed
from tests.unit.annexes.series.test_suite_reports import SUITE
from tests.unit.annexes.series.test_suite_table import Device
from tests.unit.annexes.series.test_suite_table import play as play_profiles
from tests.unit.annexes.series.test_sweep_record import played
from tests.unit.annexes.service.test_history import run as service_run
from tests.unit.views.html.sections.test_method import HOST
from tests.unit.views.html.test_writing import page_of, session

KINDS = (
    *("run", "steps", "live", "live-before", "session", "comparison", "trend-of-groups", "suite", "profiles"),
    *("sweep", "trace"),
    "trend",
)
SERVICE = {
    "login": "/login",
    "devices": "/",
    "runs": "/runs",
    "run-of-service": "/runs/2",
    "start": "/start?workload=suite:smoke&dut=loopback",
    "problem": "/runs/99",
}
_SPEC = """charkha: 1
jobs:
- sweep:
    collective: all_reduce
    ranks: 2
  iterations: 2
"""


def write_pages(folder: Path) -> dict[str, Path]:
    """The pages that commands write, by kind; the live page as a browser gets it first."""
    made = {name: render(page, follows=name.startswith("live")) for name, page in pages(folder)}
    assert tuple(made) == KINDS
    return {name: _written(folder / f"{name}.html", text) for name, text in made.items()}


async def write_service_pages(folder: Path) -> dict[str, Path]:
    """The pages of a service whose first run is over, the second waits."""
    tokens = add_users(folder / "service", ann=Role.OPERATOR)
    asked = {"Authorization": f"Bearer {tokens['ann']}", "Accept": "text/html"}
    found = {}
    async with in_this_process(folder / "service") as (routes, url), aiohttp.ClientSession() as client:
        store = routes.service.store
        for _ in range(2):
            submitted = {"dut": "loopback", "spec": _SPEC, "name": "all_reduce of_an_unusually_long_name_at_night"}
            async with client.post(f"{url}/api/v1/runs", json=submitted, headers=asked) as answer:
                assert answer.status < 300, await answer.text()
        store.start_run(1)
        store.end_run(1, State.COMPLETE, verdict="TESTER-LIMITED")
        for name, path in SERVICE.items():
            async with client.get(url + path, headers={} if name == "login" else asked) as answer:
                assert "html" in answer.headers["Content-Type"], (path, await answer.text())
                found[name] = _written(folder / f"{name}.html", await answer.text())
    return found


def pages(folder: Path) -> Iterator[tuple[str, Page]]:
    """The pages by kind, made from results in a folder."""
    run = wide_run(folder / "run")
    yield "run", run_page(read_facts(run))
    moves = [steps.step(rank, (rank + 1) % 4, 100, 150 + 700 * (rank == 3), ideal_arrival_ns=40) for rank in range(4)]
    facts = read_facts(steps.run(folder / "steps", moves))
    yield "steps", run_page(dataclasses.replace(facts, manifest=dataclasses.replace(facts.manifest, versions={})))
    page = Snapshots(run.folder).next()
    assert page is not None
    yield "live", page
    page = Snapshots(folder / "absent").next()
    assert page is not None
    yield "live-before", page
    yield "session", page_of(session(folder / "session"))
    groups = {
        name: [one.folder for one in _group(folder / name, seed=seed, slower=slower)]
        for seed, (name, slower) in enumerate({"fw-a": 1.0, "fw-b": 1.2}.items())
    }
    yield "comparison", comparison_page(compare_folders(groups, force=False))
    yield "trend-of-groups", comparison_page(three_versions())
    yield "suite", suite_page(SUITE, links={"second": "second/report.html"})
    (folder / "profiles").mkdir()
    found = play_profiles(folder / "profiles", Device())
    yield "profiles", profiles_page({name: replace(one, started=SUITE.started) for name, one in found.items()})
    yield "sweep", sweep_page(played(folder / "sweep", "qps=1,2", "dscp=0,26", repeat=2))
    mine = [node(1, duration=5), coll(2, "all_reduce", 1 << 20, deps=[1]), node(3, duration=20, deps=[1])]
    yield "trace", trace_page(viewed(mine, mine))
    runs = [one.folder for one in write_runs(folder / "runs", runs=2, seed=1)]
    points = trend_of([service_run(2), service_run(1)], runs[::-1])
    yield "trend", trend_page(points, dut="loopback", name="all_reduce")


def wide_run(folder: Path) -> Run:
    """A run of four ranks in two hosts whose table of classes has every column, judged by the example rules."""
    trace = TraceFacts(path="of_a_long_name", digest="00" * 32, ranks=4, nodes=4, communication_nodes=4)
    topology = {
        "name": "lab",
        "source": "lab.yaml",
        "digest": "ab" * 32,
        "host_index": [0, 0, 1, 1],
        "addresses": [f"198.18.{rank}.1" for rank in range(4)],
    }
    rows: list[Row] = []
    for instance, (kind, algorithm) in enumerate(
        (("reduce_scatter", "recursive_doubling"), ("all_reduce", "halving_doubling"), ("all_to_all", "pairwise"))
    ):
        for number in range(12):
            begin = 10_000_000 * number + 2_000_000 * instance
            rows += collective(
                [begin, begin + 999_999, begin, begin],
                [begin + 1_777_777] * 4,
                kind=kind,
                algorithm=algorithm,
                iteration=number,
                instance=instance,
                node_id=instance,
                size_bytes=1_111_111 << instance,
                ideal_ns=123_456,
                remaining_ideal_ns=123_456,
                traced_ns=123_456,
            )
    spent = {
        number: ranks(
            *[(10_000_000 * number, 10_000_000 * number + 7_000_000)] * 4, compute=1_000, communication=6_000_000
        )
        for number in range(12)
    }
    flows = [FlowCounters(0, 2, bytes=9000, messages=2, retransmits=123_456), FlowCounters(0, 1, bytes=900)]
    write_run(
        folder,
        rows,
        iterations=spent,
        flows=flows,
        trace=trace,
        topology=topology,
        hosts=(HOST,),
        dut={
            "firmware": "4.2",
            "name": "sw0",
            "nodes": ["leaf0", "leaf1"],
            "ports": {"up": 2, "down": 4},
            "lossy": True,
        },
        command_line=("charkha", "run", "a trace", "--seed", "7"),
        seed=7,
        versions={"charkha": "1.0", "python": "3.12"},
        parameters={"message_bytes": Parameter(4096, "bytes"), "credits": Parameter(True), "note": Parameter(None)},
        trials=Trials(13, 0, 12, (Exclusion(12, "a rank was late"),)),
        warnings={"dangling dependency": 3},
        clock=TimeAxis(source="CLOCK_MONOTONIC, offsets measured", offset_ns=2_000_000, error_ns=20_000),
        roofline_ns=5_000_000,
        sequential_roofline_ns=6_000_000,
    )
    shutil.copy(rules_file("example"), folder / RULES_FILE)
    return read_run(folder)


def _group(folder: Path, *, seed: int, slower: float) -> list[Run]:
    return write_runs(folder, runs=6, seed=seed, slower=slower, algorithm="recursive_doubling")


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
