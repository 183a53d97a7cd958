"""Runs and plans with scale-up domains, by the command."""

import json
from pathlib import Path

from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from tests.support.command import here, succeed
from tests.support.loopback import NET

DOMAIN = "{rate: 1GB/s, latency: 50us}"
HOSTS = "".join(
    f"- {{name: h{host}, slots: 2, per_rank: {NET}.{host}.0/24, rate: 1Gbit, domain: {DOMAIN}}}\n" for host in range(2)
)
SIZE = 1 << 18


def test_a_run_keeps_in_domains_what_the_plan_says(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(f"hosts:\n{HOSTS}")
    what = ("all_to_all", "-n", 4, "-b", SIZE, "--topology", "t.yaml", "--transport", "zmq")
    what += ("--algorithm", "all_to_all=parallel")
    planned = here("plan", "--collective", *what, "--json", cwd=tmp_path)
    plan = json.loads(planned.stdout)
    assert (plan["domain_bytes"], plan["local_bytes"], plan["network_bytes"]) == (SIZE, SIZE, 2 * SIZE)
    assert plan["operations"][0]["ideal_ns"]["domains"] == SIZE // 4

    once = ("-e", SIZE, "--iterations", 1, "--agents", 4, "--out", "run")
    succeed("bench", *what, *once, cwd=tmp_path, quiet=True)
    run = read_run(tmp_path / "run")
    carried = {"wire": 0, "domain": 0}
    for flow in run.table(RunTable.FLOWS).to_pylist():
        assert (flow["medium"] == "domain") == (flow["src"] // 2 == flow["dst"] // 2)
        carried[flow["medium"]] += flow["bytes"]
    assert carried == {"wire": 2 * 2 * SIZE, "domain": 2 * SIZE}, "warm-up included"
    assert [host.ranks for host in run.manifest.hosts] == [2, 2], "an agent per domain, although there may be four"
