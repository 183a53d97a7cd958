"""Ranks with two ports in a lab: a run outlives the loss of one for longer than its queue pairs retry, and returns."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from emulator.results.run_folder.manifest import COMPLETE
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import BEGIN, BY_AGENT, END, RunTable
from tests.support.full import variant
from tests.support.star_lab import Lab, raised

pytestmark = [pytest.mark.usefixtures("lab_host"), pytest.mark.slow]
TOPOLOGY = Path(__file__).parents[2] / "topologies" / "dual-homed.yaml"
RANKS, SIZE = 4, 8 << 20
SPEC = """charkha: 1
jobs: [{sweep: {collective: all_reduce, ranks: 4, sizes: [8M]}, iterations: ITERATIONS, warmup: 0}]
network: {transport: {options: {qp_timeout: 13, retry_count: 2, payload: random, survive: SURVIVE}}}
events: [EVENTS]
"""
RETURNS_WITHIN_NS = 2_000_000_000
"""As docs/faults.md says of the link of a router and a busy host."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with raised(tmp_path, TOPOLOGY.read_text()) as one:
        yield one


def played(lab: Lab, *events: str, iterations: int, out: str = "run", survives: bool = True, code: int = 0) -> Run:
    words = {"EVENTS": ", ".join(events), "ITERATIONS": str(iterations), "SURVIVE": "on" if survives else "off"}
    spec = SPEC
    for word, value in words.items():
        spec = spec.replace(word, value)
    (lab.folder / "run.yaml").write_text(spec)
    finished = lab.play("run", "-f", "run.yaml", out=out)
    assert finished.code == code, finished.stderr
    return read_run(lab.folder / out)


def check_complete(run: Run, iterations: int) -> None:
    """Every collective of every rank, and every byte of every flow, once: the payload is random and verified."""
    assert run.manifest.status == COMPLETE
    samples = run.table(RunTable.SAMPLES).to_pylist()
    assert len({(one["iteration"], one["rank"]) for one in samples}) == len(samples) == RANKS * iterations
    carried: dict[tuple[int, int], int] = defaultdict(int)
    for flow in run.table(RunTable.FLOWS).to_pylist():
        carried[flow["src"], flow["dst"]] += flow["bytes"]
        assert not any(flow[name] for name in ("dropped_icrc", "dropped_payload", "dropped_header"))
    each = 2 * (RANKS - 1) * SIZE // RANKS * iterations
    assert {pair: size for pair, size in carried.items() if size} == {
        (rank, (rank + 1) % RANKS): each for rank in range(RANKS)
    }


def moves(run: Run) -> dict[str, list[tuple[str, int]]]:
    """Who moved → when it left and when it was back, in order."""
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for row in run.table(RunTable.EVENTS).to_pylist():
        if row["seen_by"] == BY_AGENT:
            found[row["name"].partition(" (")[0]].append((row["edge"], row["time_ns"]))
    return found


def test_a_run_outlives_the_loss_of_a_port_and_returns_to_it(lab: Lab) -> None:
    run = played(lab, "{at: 200ms, port: 'leaf0:p1', down: 600ms}", iterations=7)
    check_complete(run, 7)
    found = moves(run)
    assert found.keys() >= {"rank 0 to rank 1", "rank 1 to rank 0", "rank 1 to rank 2", "rank 2 to rank 1"}
    for one in found.values():
        assert [edge for edge, _ in one] == [BEGIN, END] * (len(one) // 2)


@variant
def test_without_the_option_the_loss_of_a_port_ends_the_run(lab: Lab) -> None:
    run = played(lab, "{at: 200ms, port: 'leaf0:p1', down: 600ms}", iterations=7, survives=False, code=1)
    assert not moves(run)


@variant
@pytest.mark.parametrize("number", range(5))
def test_twenty_losses_of_ports_are_outlived(lab: Lab, number: int) -> None:
    random, at_ms, events = Random(number), 0, []
    for _ in range(4):
        at_ms += random.randrange(300, 700)
        down_ms = random.randrange(400, 1000)
        events.append(f"{{at: {at_ms}ms, port: 'leaf0:p{random.randrange(RANKS)}', down: {down_ms}ms}}")
        at_ms += down_ms + RETURNS_WITHIN_NS // 1_000_000
    run = played(lab, *events, iterations=26)
    check_complete(run, 26)
    mended = sorted(
        row["time_ns"]
        for row in run.table(RunTable.EVENTS).to_pylist()
        if row["seen_by"] != BY_AGENT and row["edge"] == END
    )
    assert len(mended) == 4
    returns: list[int] = []
    for one in moves(run).values():
        assert [edge for edge, _ in one] == [BEGIN, END] * (len(one) // 2)
        returns += (at for edge, at in one if edge == END)
    late = [at - max(end for end in mended if end < at) for at in returns]
    print(f"{len(late)} returns {min(late) / 1e6:.0f} to {max(late) / 1e6:.0f} ms after the port was back")
    assert max(late) <= RETURNS_WITHIN_NS
