"""Typical mistakes: each is one line that names what is wrong and ends with exit code 2, before anything is started."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.support.command import refused
from tests.support.runs import collective, write_run

T = "transformer-8r"
SWITCH = "--topology two-hosts-switch"
BENCH = "bench all_reduce -n 2"

MISTAKES = {
    # Commands and global options.
    "": "required: COMMAND (see `charkha --help`)",
    "rn t": "there is no 'rn'; did you mean 'run'?",
    "RUN t": "there is no 'RUN'; did you mean 'run'?",
    "benchmark all_reduce": "there is no 'benchmark'; did you mean 'bench'?",
    "--verison": "unknown option '--verison'; did you mean '--version'?",
    f"--log-level verbose check {T}": "--log-level: there is no 'verbose'; choose from debug, info, warning, error",
    f"run --log-level debug {T}": "--log-level goes before the command: charkha --log-level",
    # run
    "run": "give one of TRACE, --job, -f FILE and --again RUN",
    "run nowhere": "nowhere",
    f"run --job a={T},warmup=1,warmup=2 --job b={T}": "argument --job: warmup= is given twice",
    f"run {T} --solo": "--solo is for several jobs: this one is alone as it is",
    f"run {T} --background from=h0,to=h1,to=h2,rate=1Mbit": "a key is given twice; join several hosts with +",
    f"run {T} extra": "unexpected argument 'extra' (see `charkha run --help`)",
    f"run {T} --iteration 3": "unknown option '--iteration'; did you mean '--iterations'?",
    f"run {T} --iterations": "argument --iterations: expected one argument",
    f"run {T} --iterations ten": "argument --iterations: 'ten': give a whole number of at least 1",
    f"run {T} --iterations 0": "argument --iterations: '0': give a whole number of at least 1",
    f"run {T} --iterations 2.5": "argument --iterations: '2.5': a whole number",
    f"run {T} --warmup -1": "--warmup: '-1': give a whole number of at least 0",
    f"run {T} --transport rocev2": "argument --transport: there is no 'rocev2'; did you mean 'roce'?",
    f"run {T} --transport tcp": "argument --transport: there is no 'tcp'; choose from roce, zmq, verbs",
    f"run {T} --algorithm ring": "'ring': write NAME=VALUE",
    f"run {T} --algorithm allreduce=rings": "all_reduce has no algorithm 'rings'; did you mean 'ring'?",
    f"run {T} --algorithm all_redcue=ring": "no collective 'all_redcue'; did you mean 'all_reduce'?",
    f"run {T} --topology nowhere.yaml": "nowhere.yaml",
    f"run {T} --topology two-host-switch": "did you mean 'two-hosts-switch'?",
    f"run {T} --topology .": ".: ",
    f"run {T} --topology notes.txt": "notes.txt",
    f"run {T} --credits yes": "argument --credits: there is no 'yes'; choose from on, off",
    f"run {T} --compute half": "'half': give replay, skip, or a factor for compute time",
    f"run {T} --scale-bytes 0": "'0': give a factor",
    f"run {T} --timeout 0": "'0': give a number of seconds above 0",
    f"run {T} --timeout 1m": "'1m': give a number of seconds above 0",
    f"run {T} --ranks 4": "has 8 ranks, --ranks asks for 4",
    f"run {T} --groups nowhere.json": "nowhere.json: the group file cannot be read",
    f"run {T} --message-bytes 64X": "'64X' is not a size: write bytes, or a whole number with K, M, G or T",
    f"run {T} --message-bytes 2G": "2G is outside 1 byte to 1 GiB",
    f"run {T} --qps 0": "argument --qps: 0: from 1 to 64",
    f"run {T} --path-mtu 1500": "argument --path-mtu: there is no '1500'; choose from",
    f"run {T} --transport zmq --qps 4": "--qps is for --transport roce, not for zmq",
    f"run {T} --profile fw-z": "there is no profile 'fw-z': give a file, or one of ecn-marker, fw-a, fw-b",
    f"run {T} --profile fw-b": "a profile needs a lab",
    f"run {T} --expect nowhere.yaml": "nowhere.yaml",
    f"run {T} --repeat 0": "argument --repeat: '0': give a whole number of at least 1",
    f"run {T} --out notes.txt": "--out notes.txt: cannot be written: notes.txt is not a folder",
    f"run {T} --seed -1": "--seed: '-1': give a whole number of at least 0",
    f"run {T} --listen localhost": "--listen localhost",
    f"run {T} {SWITCH} --allow-network public": "public",
    f"run {T} {SWITCH} --lab missing": "there is no lab 'missing'",
    f"run {T} --metrics port": "'port' is not an address for metrics: write [HOST:]PORT",
    f"run {T} --mqtt http://localhost": "'http://localhost' is not a broker: write mqtt://",
    f"run {T} --again runs/one": "give one of TRACE, --job, -f FILE and --again RUN",
    "run -f nowhere.yaml": "nowhere.yaml",
    "run -f spec.yaml": "unknown key 'topologie'; did you mean 'topology'?",
    "run --again nowhere": "nowhere",
    # bench
    "bench": "required: COLLECTIVE, -n/--ranks",
    "bench all_reduce": "required: -n/--ranks (see `charkha bench --help`)",
    "bench allredcue -n 2": "there is no collective 'allredcue'; did you mean 'all_reduce'?",
    "bench sendrecv -n 1": "send_recv needs at least 2 ranks",
    "generate collective sendrecv -n 2 --out g": "'sendrecv' is not a collective but a pair of ranks",
    "bench all_reduce -n two": "argument -n/--ranks: 'two': a whole number",
    f"{BENCH} -b 1X": "'1X' is not a size",
    f"{BENCH} -b 2K -e 1K": "sizes from 2048 to 1024 bytes: the first must be at least 1, and at most the last",
    f"{BENCH} -f 1": "'1': give a factor above 1, such as 2 or 1.5",
    f"{BENCH} -f 2 -i 1K": "sizes grow by a factor (-f) or by a step (-i), not both",
    f"{BENCH} -b 1K,4K -e 1M": "a list of sizes has no largest size (-e)",
    f"{BENCH} -b 1 -e 1G -i 1": "more than 10,000 sizes",
    f"{BENCH} -g 8": "unknown option '-g'",
    f"{BENCH} --columns nccl": "there is no 'nccl'; did you mean 'nccl-tests'?",
    # Traces and plans.
    "check": "give one of TRACE and -f FILE",
    "check .": ".: ",
    "check notes.txt": "notes.txt",
    f"check {T}/transformer.9.et": "transformer.9.et",
    "plan": "give one of TRACE, -f FILE, --collective and --transformer",
    "plan --collective all_reduce": "--collective needs -n, the number of ranks that play it",
    "plan --collective ring -n 2": "there is no collective 'ring'; choose from all_reduce",
    "plan --transformer layer=3": "did you mean 'layers'?",
    f"plan {T} --seed x": "argument --seed: 'x': a whole number",
    "generate": "required: WORKLOAD (see `charkha generate --help`)",
    "generate transformers": "there is no 'transformers'; did you mean 'transformer'?",
    "generate collective all_reduce -n 2": "required: --out",
    "generate collective all_reduce -n 0 --out g": "at least 1",
    "generate transformer --layers few --out g": "argument --layers: invalid int value: 'few'",
    f"convert {T}": "required: DST",
    "convert nowhere out": "nowhere",
    # Results.
    "runs lst": "there is no 'lst'; did you mean 'list'?",
    "runs show": "required: RUN (see `charkha runs show --help`)",
    "runs show nowhere": "nowhere",
    "runs list --since yesterday": "'yesterday': write a date as 2026-01-31",
    "runs list --status done": "argument --status: there is no 'done'; choose from",
    "expect": "give a run folder: charkha expect RUN [RULES]",
    "expect nowhere": "nowhere",
    "expect runs/one nowhere.yaml": "nowhere.yaml",
    "compare": "required: GROUP",
    "compare runs/one nowhere": "nowhere",
    "compare runs/one runs/one --gate=strictly": "argument --gate: there is no 'strictly'; did you mean 'strict'?",
    "compare runs/one runs/two --margin 3": "'3' is not above 0% and below 100%: write it as 3% or 0.03",
    "report nowhere": "nowhere",
    "report runs/one --out .": "--out",
    "export runs/one": "required: --to",
    "export runs/one --to perfeto": "there is no 'perfeto'; did you mean 'perfetto'?",
    "export runs/one --to csv --out -": "--out -: csv is a folder, not one file",
    "export runs/one --to csv --out runs": "--out runs: cannot be written: it is a folder",
    "audit nowhere.pcap": "nowhere.pcap",
    "audit notes.txt": "notes.txt",
    "watch http://localhost": "'http://localhost' is not a broker: write mqtt://",
    # Test bench, agents and help.
    "peer": "required: connect|serve",
    "peer serve": "required: --from",
    "peer conect": "there is no 'conect'; did you mean 'connect'?",
    "peer connect localhost --verb wirte": "there is no 'wirte'; did you mean 'write'?",
    "lab": "required: up|down|exec|status",
    "lab start two-hosts-switch": "there is no 'start'; did you mean 'status'?",
    "lab up nowhere.yaml": "nowhere.yaml",
    "lab down missing": "there is no lab 'missing'",
    "lab status missing": "there is no lab 'missing'",
    "lab exec h0": "give a command: charkha lab exec HOST CMD",
    f"probe {SWITCH} --from h0": "required: --to",
    f"probe {SWITCH} --from h0 --to h9": "h9",
    "calibrate --transport tcp": "there is no 'tcp'; choose from roce, zmq",
    f"controller {T}": "--listen",
    "agent": "required: --controller",
    "agent --controller nowhere": "--controller nowhere: give HOST:PORT",
    "help glosary": "there is no topic 'glosary'; did you mean 'glossary'?",
    "examples two-host": "there is no example 'two-host'; did you mean 'two-hosts'?",
    "completion csh": "there is no 'csh'; did you mean 'zsh'?",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, a text file and a misspelt run spec."""
    folder = tmp_path_factory.mktemp("mistakes")
    write_run(folder / "runs" / "one", collective([0, 0], [70, 80]))
    (folder / "notes.txt").write_text("buy milk\n")
    (folder / "spec.yaml").write_text("jobs: [{trace: {path: t}}]\nnetwork: {topologie: loopback}\n")
    return folder


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line_that_names_it(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    error = refused(*shlex.split(line), capsys=capsys)
    assert MISTAKES[line] in error
    assert "internal error" not in error
    assert sorted(folder.rglob("*")) == before


def test_they_are_at_least_75() -> None:
    assert len(MISTAKES) >= 75
