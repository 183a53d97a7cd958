"""The command lines of README and docs run as they are written: those that send nothing always, the others in full.

Blocks are played in order, in a folder with what their page names. Tutorials are tours: tests/integration/test_demo.py
and tests/lab/test_demo.py play them.
"""

import gzip
import json
import re
import shutil
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

from emulator.annexes.demo.playing import LabNamespaces, StepFailed, play
from emulator.annexes.demo.tours import TOURS, Tour, TourStep
from emulator.cli.main import main
from emulator.exit_codes import DONE, EXPECTATION_FAILED, REGRESSION, TESTER_LIMITED, UNDECIDED
from tests.support import pytorch_traces
from tests.support.blocks import PAGES, Block, blocks, charkha_words
from tests.support.command import EXAMPLE, ROOT
from tests.support.full import variant
from tests.support.import_sources import write_recorder_dumps
from tests.support.msccl_files import ring_all_reduce
from tests.support.namespaces import why_not
from tests.support.repeated import write_runs

SENDS_NOTHING = re.compile(r"charkha (plan|trace|suite list|suite show|runs|compare|report|help)\b")
JUDGED = {DONE, EXPECTATION_FAILED, TESTER_LIMITED, UNDECIDED}
CODES = {
    "runs judge": JUDGED,
    "runs audit": {DONE, 1},
    "--expect": JUDGED,
    "suite run": JUDGED,
    "suite resume": JUDGED,
    "compare": {DONE, REGRESSION, UNDECIDED},
}
"""Part of a line → exit codes that are answers; else DONE."""
ELSEWHERE = {
    "pip install -q": "a package index: tests/integration/test_installed.py, and test_readme.py what it prints",
    "$ tests/run": "it runs this test: .ci/run",
    "pre-commit install": "it changes the clone: .ci/run checks the same",
    "bash .ci/run": "it runs this test: .ci/run",
    "tcpdump -i eth0 -B": "it ends with Ctrl-C: tests/integration/test_audit.py",
    "ib_write_bw ...": "two real devices: tests/lab/test_between.py",
    "all_reduce=through_first": "a package of yours: tests/unit/planner/test_collectives_page.py",
    "launch ssh": "servers: tests/integration/test_launch_ssh.py",
    "launch slurm": "a cluster: tests/integration/test_launch_slurm.py",
    "launch kubernetes": "a cluster: tests/integration/test_launch_kubernetes.py",
    "agent peer": "a NIC at the other end: tests/integration/test_peer.py, and test_peer_echo.py",
    "umask 077": "snappi: tests/integration/test_otg.py",
    "> token": "snappi: tests/integration/test_otg.py",
    "cat token": "snappi: tests/integration/test_otg.py",
    "lab-service &": "snappi: tests/integration/test_otg.py",
    "drive.py": "snappi: tests/integration/test_otg.py",
    "charkha serve lab-service": "it serves until it is stopped: tests/integration/test_service.py",
    "api/v1/duts": "a service: tests/integration/test_service.py",
}
"""Part of a line → what is missing here, and which test plays the same."""
_TWO_HOSTS, _EIGHT_HOSTS = "topologies/two-hosts-switch.yaml", "topologies/eight-hosts-switch.yaml"
_LAB = (f"cp {_TWO_HOSTS} lab.yaml", "charkha lab up lab.yaml")
_RACK = (f"cp {_EIGHT_HOSTS} rack.yaml", "charkha lab up rack.yaml")
_FAST_RACK = (f"sed s/100Mbit/4Gbit/ {_EIGHT_HOSTS} > rack.yaml", "charkha lab up rack.yaml --force")
_JOBS = (
    "charkha trace generate collective all_reduce -n 64 -b 64K --out traces/llama-64r",
    "charkha trace generate collective all_to_all -n 32 -b 64K --out traces/moe-32r",
)
BEFORE = {
    "background": _FAST_RACK,
    "bench": (),
    "box": (
        "ip link add eth1 type veth peer name nic-a && ip link add eth2 type veth peer name nic-b",
        "for port in eth1 eth2 nic-a nic-b; do ip link set $port up; done",
    ),
    "calibrate": (),
    "collectives": (),
    "compare": (*_LAB, "rm -r runs"),
    "examples": (),
    "expect": _LAB,
    "experiment": ("charkha run lab/examples/transformer-8r --iterations 1 --out runs/20261123-061412-transformer-8r",),
    "faults": (),
    "interference": (),
    "jobs": (*_RACK, *_JOBS),
    "lab": (),
    "launch": ("cp -r TRACE traces/my-job",),
    "multipath": ("charkha lab up topologies/leaf-spine-2x4.yaml",),
    "pairs": (),
    "probe": (),
    "profiles": (),
    "pytorch": (),
    "report": (),
    "sharing": (),
    "suites": (f"cp {_TWO_HOSTS} leaf.yaml", "charkha lab up leaf.yaml"),
    "sweep": ("rm run.yaml", "charkha bench all_reduce -n 2 --print-spec > run.yaml"),
    "telemetry": (),
    "timeline": (),
    "uncertainty": (),
}
"""Page with traffic → what its reader did before."""
OWN_FILES = {"box": "one-lost.yaml", "jobs": "session.yaml"}
"""Page → the file that its first YAML block is."""
PLAN = """
charkha_suite: 1
name: plan
rules: [{metric: incomplete, at_most: 0}]
cases: [{name: one, spec: {job: {sweep: {collective: all_reduce, ranks: 2, sizes: [64K]}, iterations: 3}}}]
"""
LATER = ("charkha report runs/both", "charkha runs show measured", "charkha suite history")
"""Lines that send nothing, but need what a line before them in their block has played."""

BLOCKS = [block for page in PAGES for block in blocks(page) if page.stem.removeprefix("tutorial-") not in TOURS]


def elsewhere(line: str) -> bool:
    return any(part in f"$ {line}" for part in ELSEWHERE)


def sends_nothing(line: str) -> bool:
    return SENDS_NOTHING.match(line) is not None and not line.startswith(LATER)


def quick(block: Block) -> list[str]:
    return [line for line in block.lines if sends_nothing(line) and not elsewhere(line)]


def slow(block: Block) -> bool:
    return any(not sends_nothing(line) and not elsewhere(line) for line in block.lines)


def needs_lab(block: Block) -> bool:
    return any("charkha lab" in line for line in (*BEFORE[block.page.stem], *block.lines))


def codes(line: str) -> set[int]:
    return next((codes for part, codes in CODES.items() if part in line), {DONE})


def name(block: Block) -> str:
    return block.name


def furnish(world: Path) -> None:
    """Make what the pages name: traces, runs, rules."""
    for one in ("TRACE", "trace", "my-traces", "my-pytorch-traces", "traces/monday", "traces/tuesday"):
        shutil.copytree(EXAMPLE, world / one)
    for folder in ("topologies", "lab"):
        (world / folder).symlink_to(ROOT / folder)
    for turn, one in enumerate(("fw-a", "fw-b")):
        for root in ("ab", "nightly"):
            write_runs(world / "runs" / root / one, runs=2, seed=turn, turn=turn, dut={"firmware": one})
    runs = write_runs(world / "lab-runs", runs=3, seed=9, turn=9, dut={"firmware": "2.1"})
    names = ("RUN", "runs/20261121-101500-transformer-8r", "runs/20260102-030405-transformer-8r")
    for run, one in zip(runs, names, strict=True):
        run.folder.rename(world / one)
    inputs = ROOT / "tests" / "data"
    shutil.copyfile(inputs / "inputs" / "rules.yaml", world / "rules.yaml")
    (world / "plan.yaml").write_text(PLAN)
    shutil.copyfile(inputs / "captures" / "read-loss.client.pcap.gz", world / "roce.pcap")
    main(["trace", "generate", "collective", "all_reduce", "-n", "2", "--out", str(world / "one")])
    shutil.move(next((world / "one").glob("*.0.et")), world / "trace.0.et")
    recorded = json.dumps(pytorch_traces.data_parallel_rank(0, 2).document())
    (world / "kineto_0.json.gz").write_bytes(gzip.compress(recorded.encode()))
    request = {"timestamp": 0, "input_length": 40, "output_length": 2, "hash_ids": [1]}
    (world / "conversation_trace.jsonl").write_text(f"{json.dumps(request)}\n" * 100)
    write_recorder_dumps(world / "dumps")
    (world / "FILE.xml").write_text(ring_all_reduce(2))
    two = {"hosts": [{"name": one, "per_rank": f"127.{95 + n}.0.0/24"} for n, one in enumerate("ab")]}
    (world / "two-agents.yaml").write_text(json.dumps(two | {"agents": {"a": "agent-0", "b": "agent-1"}}))
    job = {"trace": {"path": "TRACE"}, "pace": "continuous", "iterations": 5}
    (world / "session.yaml").write_text(json.dumps({"charkha": 1, "jobs": [job | {"name": one} for one in "ab"]}))
    (world / "run.yaml").write_text(json.dumps({"charkha": 1, "jobs": [{"trace": {"path": "TRACE"}}]}))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all that sends nothing: each line writes files of its own."""
    world = tmp_path_factory.mktemp("world")
    furnish(world)
    return world


@pytest.mark.parametrize("block", [block for block in BLOCKS if quick(block)], ids=name)
def test_what_sends_nothing_runs(
    block: Block, shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shared)
    for line in quick(block):
        (words,) = charkha_words(line)
        assert main(words) in codes(line), f"{line}: {capsys.readouterr().err}"


@pytest.fixture
def empty_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No calibration of this machine is used or replaced."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@variant
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("empty_home")
@pytest.mark.parametrize("block", [block for block in BLOCKS if slow(block)], ids=name)
def test_traffic_runs(block: Block, tmp_path: Path) -> None:
    page = block.page.stem
    if needs_lab(block) and (reason := why_not()) is not None:
        pytest.skip(f"no lab here: {reason}")
    furnish(tmp_path)
    if page in OWN_FILES:
        text = re.findall(r"```yaml\n(.*?)```", block.page.read_text(encoding="utf-8"), re.DOTALL)[0]
        (tmp_path / OWN_FILES[page]).write_text(text)
    lines = [*BEFORE[page], *(line for line in block.lines if not elsewhere(line))]
    steps = [TourStep("", line, codes=tuple(codes(line))) for line in lines]
    tour = Tour(name=block.name, title="", reader="", steps=steps, has_lab=needs_lab(block), shows="")
    with ExitStack() as stack:
        place = stack.enter_context(LabNamespaces.make() if tour.has_lab else nullcontext())
        try:
            for played in play(tour, tmp_path, place=place):
                print(f"{played.seconds:.1f} s  {played.step.command}")
        except StepFailed as error:
            pytest.fail(str(error))


def test_every_page_with_traffic_is_played_and_no_reason_is_left_over() -> None:
    lines = [f"$ {line}" for block in BLOCKS for line in block.lines]
    assert {block.page.stem for block in BLOCKS if slow(block)} == set(BEFORE), "add the page to BEFORE or ELSEWHERE"
    for part, why in ELSEWHERE.items():
        assert any(part in line for line in lines), part
        assert all((ROOT / test).exists() for test in re.findall(r"tests/\S+\.py|\.ci/run", why)), why
    assert len(lines) - sum(elsewhere(line[2:]) for line in lines) >= 80
