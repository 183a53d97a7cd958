"""An InfraGraph with annotations on the command line."""

import json
from pathlib import Path

from tests.support.command import charkha, succeed
from tests.unit.annexes.topologies.test_infragraph import COMBINED

PLAN = ("plan", "--collective", "all_reduce", "-n", 3, "--topology", "t.yaml")


def test_a_plan_uses_the_hosts_of_the_annotations(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(COMBINED)
    done = succeed(*PLAN, "--json", cwd=tmp_path, quiet=True)
    assert json.loads(done.stdout)["ranks"] == 3


def test_a_wrong_annotation_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(COMBINED.replace('value: "0"', "value: first"))
    line = COMBINED[: COMBINED.index("srv.1.xpu.0")].count("\n") + 1
    done = charkha(*PLAN, cwd=tmp_path)
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"charkha: t.yaml:{line}, annotations.nodes[0]: rank 'first' of srv.1.xpu.0 is not a")
