"""What an agent process loads. Its start-up time and memory count once per agent, and a run may have one per core."""

import subprocess
import sys
from pathlib import Path

import pytest

from emulator.plugins import BUILT_IN, PluginKind
from emulator.transports.registry import TRANSPORTS

NOT_FOR_AGENTS = {
    "pyarrow",
    "jsonschema",
    "rich",
    "jinja2",
    "emulator.results.run_folder",
    "emulator.experiment",
    "emulator.cli",
}
MAIN = """
import runpy, sys
sys.argv = ["agents", "--controller", "unix:/nowhere/control.sock", "--name", "a0"]
try:
    runpy.run_module("agents", run_name="__main__")
except SystemExit as end:
    print(end.code)
print(*sys.modules)
"""


def run(code: str) -> list[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_an_agent_that_finds_no_controller_has_loaded_no_tables_no_schemas_and_no_run_folder() -> None:
    code, *loaded = run(MAIN)
    assert code == "1"
    assert "agents.agent" in loaded
    assert not NOT_FOR_AGENTS.intersection(loaded)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_agent_loads_the_transport_it_uses_and_no_other(transport: str) -> None:
    module = {name: makes.partition(":")[0] for name, makes in BUILT_IN[PluginKind.TRANSPORTS].items()}
    loaded = run(f"import sys, agents.__main__, {module[transport]}\nprint(*sys.modules)")
    others = {module[name] for name in TRANSPORTS if name != transport}
    assert not (NOT_FOR_AGENTS | others).intersection(loaded)
    assert ("zmq" in loaded) == (transport == "zmq")


@pytest.mark.parametrize("is_needed", [True, False])
def test_an_agent_that_was_started_early_is_told_its_target_or_that_there_is_no_run(
    tmp_path: Path, is_needed: bool
) -> None:
    log = tmp_path / "a0.log"
    greeting = f"unix:{tmp_path}/none\n{log}\ntoken\n127.0.0.1\n" if is_needed else ""
    command = [sys.executable, "-P", "-m", "agents", "--controller", "-", "--name", "a0"]
    done = subprocess.run(command, input=greeting, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (int(is_needed), "", "")
    assert log.exists() == is_needed
    assert not is_needed or log.read_text().startswith("charkha agent a0: ")
