"""Events that run commands on this host: only if the user allows it, without a shell, for a limited time."""

from pathlib import Path

from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import BEGIN, BY_COMMAND, END, RunTable
from emulator.results.statistics.summary import summarise
from tests.support.command import charkha, succeed

SPEC = """charkha: 1
jobs: [{sweep: {collective: all_reduce, ranks: 2, sizes: [1K]}, iterations: 300, warmup: 0}]
events:
- {at: 0s, do: [sleep, "1000"], limit: 20ms}
- {at: 0s, do: [touch, "$HOME; touch b"]}
- {at: 0s, do: [sh, -c, "echo said; exit 3"]}
- {at: 1000s, do: [touch, never]}
"""


def write(folder: Path, text: str = SPEC) -> Path:
    path = folder / "run.yaml"
    path.write_text(text)
    return path


def test_commands_run_with_their_times_and_exit_codes_in_the_table(tmp_path: Path) -> None:
    done = succeed("run", "-f", write(tmp_path), "--allow-commands", "--out", "run", "--json", cwd=tmp_path)
    assert done.document  # what commands write is not in it
    assert "said" in done.stderr.splitlines()
    assert (tmp_path / "$HOME; touch b").exists()
    assert not (tmp_path / "b").exists()
    assert not (tmp_path / "never").exists()
    run = read_run(tmp_path / "run")
    rows = {(row["name"], row["edge"]): row for row in run.table(RunTable.EVENTS).to_pylist()}
    for number, code in enumerate((128 + 9, 0, 3)):
        begin, end = rows[f"events[{number}]", BEGIN], rows[f"events[{number}]", END]
        assert (begin["exit_code"], end["exit_code"], begin["seen_by"]) == (None, code, BY_COMMAND)
        assert begin["planned_ns"] <= begin["time_ns"] < end["time_ns"]
        assert begin["uncertainty_ns"] <= begin["time_ns"] - begin["planned_ns"]
    limited = rows["events[0]", END]["time_ns"] - rows["events[0]", BEGIN]["time_ns"]
    assert limited >= 20_000_000
    assert rows["events[3]", BEGIN]["time_ns"] is None
    found = {one.event.name: one.event for one in summarise(run).events}
    assert (found["events[2]"].where, found["events[2]"].exit_code) == ("this host", 3)
    assert found["events[2]"].what == "run sh -c 'echo said; exit 3'"


def test_a_command_that_nobody_allowed_is_refused_before_traffic(tmp_path: Path) -> None:
    refused = charkha("run", "-f", write(tmp_path), "--out", "run", cwd=tmp_path)
    assert refused.code == 2
    assert "run.yaml:4, events[0].do: runs a command on this host, which nobody allowed" in refused.error
    assert "--allow-commands" in refused.error
    assert sorted(one.name for one in tmp_path.iterdir()) == ["run.yaml"]
