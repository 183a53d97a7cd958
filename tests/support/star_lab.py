"""Hosts at one switch, brought up by the command, and runs in them."""

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable
from tests.support.command import COMMAND, Finished, charkha


def star(hosts: int, *, rate: str, mtu: int, kind: str = "bridge") -> str:
    """Hosts at one switch."""
    lines = [f"  - {{name: h{n}, per_rank: 198.18.{n + 1}.0/24}}" for n in range(hosts)]
    links = [f'  - {{endpoints: ["h{n}:eth0", "sw0:p{n}"], rate: {rate}, mtu: {mtu}}}' for n in range(hosts)]
    top = ["name: star", "dut: {kind: switch, nodes: [sw0], vendor: Linux, model: bridge}", "transport: {name: roce}"]
    return "\n".join([*top, "hosts:", *lines, "switches:", f"  - {{name: sw0, kind: {kind}}}", "links:", *links, ""])


class Lab:
    """A lab brought up by the command, and runs in it."""

    def __init__(self, folder: Path, topology: str) -> None:
        self.folder, self.id = folder, f"test-{secrets.token_hex(4)}"
        (folder / "lab.yaml").write_text(topology)

    def up(self, *options: str) -> None:
        # Not by `charkha`, which leaves no process behind: the daemons of Open vSwitch stay.
        command = [*COMMAND, "lab", "up", "lab.yaml", "--id", self.id, "--force", *options]
        raised = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        assert raised.returncode == 0, raised.stderr

    def bench(self, collective: str, *options: object, out: str, timeout_s: float = 100) -> Finished:
        return self.play("bench", collective, *options, out=out, timeout_s=timeout_s)

    def play(self, *command: object, out: str, timeout_s: float = 100) -> Finished:
        where = ("--topology", "lab.yaml", "--lab", self.id, "--out", out)
        return charkha(*command, *where, cwd=self.folder, timeout_s=timeout_s)

    def run(self, collective: str, *options: object, out: str, timeout_s: float = 100) -> Run:
        finished = self.bench(collective, *options, out=out, timeout_s=timeout_s)
        assert finished.code == 0, finished.stderr
        return read_run(self.folder / out)

    def down(self) -> None:
        charkha("lab", "down", self.id, cwd=self.folder)


@contextmanager
def raised(folder: Path, topology: str, *options: str) -> Iterator[Lab]:
    """A lab that is up meanwhile, and gone afterwards, also if it did not come up."""
    one = Lab(folder, topology)
    try:
        one.up(*options)
        yield one
    finally:
        one.down()


def sent_bytes(run: Run) -> dict[str, int]:
    """Device and interface, `leaf0:u0` → bytes that it sent while the run was watched."""
    series: dict[str, list[int]] = {}
    for row in run.table(RunTable.COUNTERS).to_pylist():
        if row["counter"] == "tx_bytes":
            series.setdefault(f"{row['device']}:{row['interface']}", []).append(row["value"])
    return {port: values[-1] - values[0] for port, values in series.items()}
