"""`--explain`: every header that a table can show is explained."""

import importlib
import importlib.resources
import re

import pytest

from emulator.views.columns.columns import Header

TABLES = (
    "emulator.annexes.bench_kit.audit.command",
    "between_table",
    "emulator.annexes.bench_kit.calibrate",
    "emulator.annexes.bench_kit.closure",
    "campaign_table",
    "comparison_table",
    "flow_load_table",
    "emulator.annexes.importers.writing",
    "interference_table",
    "lab_picture",
    "pair_table",
    "plan_table",
    "emulator.annexes.bench_kit.probe_verdict",
    "emulator.annexes.bench_kit.peer",
    "emulator.annexes.trace_kit.synth",
    "store_table",
    "summary_table",
    "sweep",
    "emulator.annexes.trace_kit.diff",
    "trace_summary",
    "verdict_table",
    "emulator.annexes.telemetry.watching",
    "emulator.annexes.workloads.totals",
)


@pytest.mark.parametrize("table", TABLES)
def test_every_header_of_every_table_is_explained(table: str) -> None:
    module = importlib.import_module(table if "." in table else f"emulator.views.terminal.{table}")
    found = [value for value in vars(module).values() if isinstance(value, tuple)]
    headers = [one for value in found for one in value if isinstance(one, Header) and one.header]
    assert headers or len(module.EXPLAIN.splitlines()) > 2
    for one in headers:
        assert one.meaning, one.header
        assert re.search(rf"^  {re.escape(one.name)}  ", module.EXPLAIN, re.MULTILINE), one.name


@pytest.mark.parametrize("table", TABLES)
def test_an_explanation_fits_a_terminal(table: str) -> None:
    module = importlib.import_module(table if "." in table else f"emulator.views.terminal.{table}")
    assert max(map(len, module.EXPLAIN.splitlines())) <= 100


def test_every_table_of_the_terminal_is_known_here() -> None:
    folder = importlib.resources.files("emulator.views.terminal")
    with_tables = {
        one.name.removesuffix(".py")
        for one in folder.iterdir()
        if one.name.endswith(".py") and "FittedTable(" in one.read_text() and one.name != "table.py"
    }
    assert with_tables <= set(TABLES)
