"""Every kind of page as files, written from made-up results: long names, wide tables, all sections."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import aiohttp
from msgspec.structs import replace

from charkha.service import Role
from emulator.annexes.service.history import compare_folders, trend_of, trend_page
from emulator.annexes.service.model import State
from emulator.control.observations import FlowCounters
from emulator.experiment.series.suite.document import find_suite, read_suite
from emulator.experiment.series.suite.page import suite_page
from emulator.experiment.series.sweep.page import sweep_page
from emulator.results.run_folder.manifest import TraceFacts
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.verdict.rules import RULES_FILE, rules_file
from emulator.results.verdict.session import judge_session
from emulator.views.html.comparison_page import comparison_page
from emulator.views.html.facts import read_facts
from emulator.views.html.live import Snapshots
from emulator.views.html.page.document import render
from emulator.views.html.run_page import run_page
from emulator.views.html.session_page import session_page
from emulator.views.html.trace_page import trace_page
from tests.support import steps
from tests.support.recorded import three_versions
from tests.support.repeated import write_runs
from tests.support.runs import Row, collective, ranks, write_run
from tests.support.service import add_users, in_this_process
from tests.support.traces import coll, node
from tests.support.viewed import viewed
from tests.unit.annexes.service.test_history import run as service_run
from tests.unit.experiment.series.suite.test_page import LOST, RUN
from tests.unit.experiment.series.suite.test_table import RECORD
from tests.unit.experiment.series.sweep.test_record import played
from tests.unit.views.html.test_session_page import session

KINDS = (
    *("run", "steps", "live", "live-before", "session", "comparison", "trend-of-groups", "suite", "sweep", "trace"),
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
    made = dict(_pages(folder))
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


def _pages(folder: Path) -> Iterator[tuple[str, str]]:
    run = wide_run(folder / "run")
    yield "run", render(run_page(read_facts(run)))
    moves = [steps.step(rank, (rank + 1) % 4, 100, 150 + 700 * (rank == 3), ideal_arrival_ns=40) for rank in range(4)]
    yield "steps", render(run_page(read_facts(steps.run(folder / "steps", moves))))
    page = Snapshots(run.folder).next()
    assert page is not None
    yield "live", render(page, follows=True)
    page = Snapshots(folder / "absent").next()
    assert page is not None
    yield "live-before", render(page, follows=True)
    yield "session", render(session_page(judge_session(session(folder / "session"))))
    groups = {
        name: [one.folder for one in _group(folder / name, seed=seed, slower=slower)]
        for seed, (name, slower) in enumerate({"fw-a": 1.0, "fw-b": 1.2}.items())
    }
    yield "comparison", render(comparison_page(compare_folders(groups, force=False)))
    yield "trend-of-groups", render(comparison_page(three_versions()))
    cases = (RECORD.cases[0], replace(RECORD.cases[1], runs=(RUN, replace(RUN, job="b", checks=(LOST,) * 3))))
    plan = read_suite(find_suite("bmwg-training"))
    yield "suite", render(suite_page(replace(RECORD, cases=cases, source="a plan"), plan.clauses))
    yield "sweep", render(sweep_page(played(folder / "sweep", "qps=1,2", repeat=2)))
    mine = [node(1, duration=5), coll(2, "all_reduce", 1 << 20, deps=[1]), node(3, duration=20, deps=[1])]
    yield "trace", render(trace_page(viewed(mine, mine)))
    runs = [one.folder for one in write_runs(folder / "runs", runs=2, seed=1)]
    points = trend_of([service_run(2), service_run(1)], runs[::-1])
    yield "trend", render(trend_page(points, dut="loopback", name="all_reduce"))


def wide_run(folder: Path) -> Run:
    """A run of four ranks in two hosts whose table of classes has every column, judged by the example rules."""
    trace = TraceFacts(path="of_a_long_name", digest="00" * 32, ranks=4, nodes=4, communication_nodes=4)
    topology = {"host_index": [0, 0, 1, 1], "addresses": [f"198.18.{rank}.1" for rank in range(4)]}
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
    write_run(folder, rows, iterations=spent, flows=flows, trace=trace, topology=topology)
    shutil.copy(rules_file("example"), folder / RULES_FILE)
    return read_run(folder)


def _group(folder: Path, *, seed: int, slower: float) -> list[Run]:
    return write_runs(folder, runs=6, seed=seed, slower=slower, algorithm="recursive_doubling")


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
