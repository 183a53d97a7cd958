"""What an agent process loads. Its start-up time and memory count once per agent, and a run may have one per core."""

from __future__ import annotations

import subprocess
import sys

import pytest

from emulator.transports.registry import TRANSPORTS

NOT_FOR_AGENTS = {
    "pyarrow",
    "jsonschema",
    "rich",
    "scipy",
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
    loaded = run(f"import sys, agents.__main__, agents.transports.{transport}.transport\nprint(*sys.modules)")
    others = {f"agents.transports.{name}.transport" for name in TRANSPORTS if name != transport}
    assert not (NOT_FOR_AGENTS | others).intersection(loaded)
    assert ("zmq" in loaded) == (transport == "zmq")
