"""Real traces of PyTorch are imported, played and compared with what the reference converter made of them."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from emulator.cli.main import main
from tests.support.command import ROOT, answer, charkha, succeed
from tests.support.import_sources import write_recorder_dumps
from tests.support.pytorch_traces import data_parallel_host, data_parallel_rank, write
from tests.support.shared_traces import require_shared

MIB = 1 << 20
DLRM, THREE_D = "real-dlrm-8r", "self-pytorch-3d-8r"


def checked(trace: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["trace", "check", str(trace), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def operations(summary: dict[str, Any]) -> Counter[tuple[str, int, int, int]]:
    """(kind, group size, count, bytes) of every row."""
    return Counter(
        (row["kind"], row["group_size"], row["operations"], row["payload_bytes"]) for row in summary["operations"]
    )


@pytest.mark.parametrize("name", [DLRM, THREE_D])
def test_the_traffic_is_that_of_the_reference_conversion(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """real-dlrm-8r was made by mlc-chakra 1.0.0, the other one by a program that recorded every call."""
    reference = checked(require_shared("traces", name), capsys)
    imported = checked(require_shared("traces", name, "raw"), capsys)
    assert operations(imported) == operations(reference)


@pytest.mark.parametrize("archive", ["dlrm_kineto.tar.gz", "dlrm_pytorch_et.tar.gz"])
def test_either_kind_of_trace_alone_gives_the_same_traffic(archive: str, capsys: pytest.CaptureFixture[str]) -> None:
    both = checked(require_shared("traces", DLRM, "raw"), capsys)
    assert operations(checked(require_shared("traces", DLRM, "raw", archive), capsys)) == operations(both)


SINGLE = {
    ("hta-kineto", "nccl_data.json.gz"): {"all_reduce": 15, "broadcast": 6},
    ("hta-kineto", "sampled_rank-0.json.gz"): {"all_gather": 2, "all_reduce": 4, "all_to_all": 4},
    ("hta-kineto", "mi250_minitoy_train_ROCm6_2_kineto.json.gz"): {},
    ("param-et_replay", "1.0.3-chakra.0.0.4_resnet_1gpu_et.json.gz"): {"all_reduce": 15, "broadcast": 6},
    ("param-et_replay", "1.1.0-chakra.0.0.4_resnet_2gpu_et.json.gz"): {"all_reduce": 15, "broadcast": 6},
    ("param-et_replay", "resnet_et.json.gz"): {"all_reduce": 15, "broadcast": 6},
    ("param-et_replay", "linear_kineto.json.gz"): {},
    ("param-et_replay", "resnet_kineto.json.gz"): {},
}
KINDS = {"all_gather", "all_reduce", "all_to_all", "broadcast", "send", "recv"}


@pytest.mark.parametrize(("place", "collectives"), SINGLE.items(), ids=[name for _, name in SINGLE])
def test_every_schema_is_read(
    place: tuple[str, str], collectives: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = require_shared("traces", *place)
    assert main(["trace", "convert", str(source), str(tmp_path / "made"), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    mapped = made["import"]["mapped"]
    assert {kind: one["count"] for kind, one in mapped.items() if kind in KINDS} == collectives
    assert "kernels of the library without a call: size and group are unknown" not in made["import"]["dropped"]
    assert json.loads((tmp_path / "made" / "import.json").read_text()) == made["import"]


@pytest.mark.parametrize("name", ["linear_et.json.gz", "hf_GPT2_et.json.tar.gz"])
def test_a_host_trace_without_communication_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = require_shared("traces", "param-et_replay", name)
    assert main(["trace", "convert", str(source), str(tmp_path / "made")]) == 2
    assert "records no communication, and it has no times: there is nothing to play" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A folder as a user has it after recording."""
    for rank in range(2):
        write(data_parallel_rank(rank, 2), tmp_path / "job" / f"kineto_{rank}.json")
        write(data_parallel_host(rank), tmp_path / "job" / f"et_{rank}.json")
    return tmp_path / "job"


def test_a_folder_is_played_and_played_again(job: Path) -> None:
    classes = succeed("run", job, "--iterations", 2, "--out", "run", "--json", cwd=job.parent).document["classes"]
    assert sorted((one["collective"], one["size_bytes"]) for one in classes) == [
        ("all_reduce", MIB // 4),
        ("all_reduce", MIB),
    ]
    succeed("run", "--again", "run", "--out", "again", cwd=job.parent)
    changed = data_parallel_rank(1, 2)
    changed.operator("aten::more", 700, 100)
    write(changed, job / "kineto_1.json")
    refused = charkha("run", "--again", "run", "--out", "third", cwd=job.parent)
    assert (refused.code, "changed" in refused.stderr) == (2, True)


def test_convert_prints_what_became_of_the_records(job: Path) -> None:
    finished = answer("trace", "convert", job, "made", cwd=job.parent)
    for fact in (
        "host and kineto (2)",
        "all_reduce",
        "2.50 MiB",
        "mapped",
        "merged",
        "inferred",
        "trace.0.et to trace.1.et",
    ):
        assert fact in finished.stdout, fact
    answer("trace", "check", "made", cwd=job.parent)


def test_strict_refuses_a_guess_and_a_missing_rank(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "convert", str(job), str(job.parent / "made"), "--strict"]) == 0
    for path in job.glob("*_1.json"):
        path.unlink()
    capsys.readouterr()
    assert main(["trace", "convert", str(job), str(job.parent / "one"), "--strict"]) == 2
    assert "is of a job of 2 ranks; there is no trace of rank 1" in capsys.readouterr().err
    assert main(["run", str(job), "--out", str(job.parent / "run")]) == 2
    assert "there is no trace of rank 1: record all ranks" in capsys.readouterr().err
    document = data_parallel_rank(0, 1)
    document.info = None
    write(document, job / "kineto_0.json")
    (job / "et_0.json").unlink()
    assert main(["trace", "convert", str(job), str(job.parent / "two"), "--strict"]) == 2
    assert "needs a guess" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--from", "pytorhc"], "there is no format 'pytorhc'; did you mean 'pytorch'?"),
        (["--from", "unknown"], "there is no format 'unknown'; there are chakra, pytorch, flight-recorder,"),
        (["--groups", "groups.json"], "--groups is for traces of Chakra"),
        (["--ranks", "3"], "is of a job of 2 ranks, --ranks asks for 3"),
        (["--from", "chakra"], "contains"),
    ],
)
def test_wrong_options_are_one_line(
    words: list[str], problem: str, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "convert", str(job), str(job.parent / "made"), *words]) == 2
    said = capsys.readouterr().err
    assert (problem in said, said.count("\n")) == (True, 1), said


def test_ranks_that_disagree_are_refused_before_anything_is_written(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in job.glob("et_*.json"):
        path.unlink()
    changed = data_parallel_rank(1, 2)
    changed.collective("allreduce", 77, 600, (650, 10))
    write(changed, job / "kineto_1.json")
    assert main(["trace", "convert", str(job), str(job.parent / "made")]) == 2
    said = capsys.readouterr().err
    assert "kineto_0.json: has 2 collectives" in said
    assert "has 3" in said
    assert not (job.parent / "made").exists()


@pytest.fixture
def guessed(tmp_path: Path) -> Path:
    """Two ranks that do not say which they are, so that the names of the files decide."""
    for rank in range(2):
        document = data_parallel_rank(rank, 2)
        document.info = None
        write(document, tmp_path / "guessed" / f"kineto_{rank}.json")
    return tmp_path / "guessed"


def test_what_was_guessed_is_in_every_result(guessed: Path, job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    what = "import guessed: the rank is that in the name of the file"
    assert main(["trace", "check", str(guessed), "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["warnings"][what] == 2
    first = f"import from pytorch {what.removeprefix('import ')} (2 times); first: {guessed / 'kineto_0.json'}"
    assert first in printed.err
    assert main(["plan", str(guessed), "--json"]) == 0
    printed = capsys.readouterr()
    assert (json.loads(printed.out)["warnings"][what], first in printed.err) == (2, True)

    rules = guessed.parent / "rules.yaml"
    rules.write_text("charkha_rules: 1\nrules:\n- {metric: import_guessed, at_most: 0}\n")
    run = guessed.parent / "run"
    played = charkha("run", guessed, "--out", run, "--expect", rules, cwd=job.parent)
    assert (played.code, first in played.stderr, f"{what} (2 times)" in played.stdout) == (5, True, True), played.stderr
    assert "FAIL: import_guessed is 6" in played.stdout
    stored = json.loads((run / "manifest.json").read_text())["trace"]["imported"]
    assert [(one["fate"], one["count"]) for one in stored["losses"] if what.endswith(one["what"])] == [("guessed", 2)]
    assert main(["report", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"][what] == 2
    page = (run / "report.html").read_text()
    assert "Guessed: the recording lacks 6 facts about its traffic" in page
    assert what in page

    for trace in (run / "trace", guessed):
        assert main(["trace", "check", str(trace), "--strict"]) == 2
        assert "needs a guess" in capsys.readouterr().err
    exact = charkha("run", job, "--out", job.parent / "exact", "--expect", rules, "--strict", cwd=job.parent)
    assert (exact.code, "PASS: the one check is met" in exact.stdout) == (0, True), exact.stderr


@pytest.mark.parametrize(
    ("page", "source"),
    [("pytorch", "my-traces"), ("importers", "dumps"), ("traces", "dumps"), ("../README", "my-traces")],
)
def test_the_pages_show_what_is_printed(
    page: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for rank in range(2):
        document = data_parallel_rank(rank, 2)
        document.collective("broadcast", 1 << 16, 620, (650, 60), Process_Group_Ranks="[0, 1]", Group_size=2)
        write(document, tmp_path / "my-traces" / f"kineto_{rank}.json")
    write_recorder_dumps(tmp_path / "dumps")
    assert main(["trace", "check", source]) == 0
    printed = capsys.readouterr()
    text = (ROOT / "docs" / f"{page}.md").read_text()
    shown = re.search(rf"\$ charkha trace check {source}\n(.*?)```", text, re.DOTALL)
    expected = shown[1] if shown else "import from pytorch guessed: root of a broadcast: the first rank of the group"
    assert expected in text
    assert expected.strip() in printed.err + printed.out


def test_an_imported_trace_without_its_report_is_no_exact_one(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = job.parent / "made"
    assert main(["trace", "convert", str(job), str(made)]) == 0
    assert main(["trace", "check", str(made), "--strict"]) == 0
    (made / "import.json").write_text("[]")
    assert main(["trace", "check", str(made)]) == 2
    assert "is not the report on an import" in capsys.readouterr().err
    (made / "import.json").unlink()
    assert main(["trace", "check", str(made), "--strict"]) == 2
    assert "what was guessed is not known" in capsys.readouterr().err


def test_one_rank_of_many_is_shown_and_not_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(data_parallel_rank(1, 4), tmp_path / "kineto_1.json")
    found = checked(source, capsys)
    assert (found["ranks"], found["only"]) == (4, 1)
    assert operations(found) == {("all_reduce", 4, 2, MIB + MIB // 4): 1}
    assert [group["ranks"] for group in found["groups"]] == [[0, 1, 2, 3]]
    assert main(["trace", "check", str(source)]) == 0
    shown = capsys.readouterr().out
    for words in ("rank 1 of 4", "ranks 0-3", "1 of 4 ranks: not playable; record all ranks"):
        assert words in shown
    assert "proven" not in shown
    for words in (["--rank", "1"], []):
        assert main(["trace", "view", str(source), *words, "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert {(one["src"], one["dst"]) for one in facts["pairs"]} <= {(1, at) for at in range(4)} | {
            (at, 1) for at in range(4)
        }
        assert [one["rank"] for one in facts["usage"]] == [1]
    page = tmp_path / "page.html"
    assert main(["trace", "view", str(source), "--out", str(page), "--graph", "1:1"]) == 0
    assert "1 of 4 ranks: not playable; record all ranks." in page.read_text()
    capsys.readouterr()
    for refused in (
        ["run", str(source), "--out", str(tmp_path / "run")],
        ["plan", str(source)],
        ["trace", "view", str(source), "--rank", "0", "--json"],
        ["trace", "view", str(source), "--graph", "0:1", "--json"],
    ):
        assert main(refused) == 2, refused
    assert not (tmp_path / "run").exists()


def test_a_rank_is_chosen_of_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in (1, 2):
        write(data_parallel_rank(rank, 4), tmp_path / "job" / f"kineto_{rank}.json")
    assert main(["trace", "check", str(tmp_path / "job")]) == 2
    assert "is of a job of 4 ranks; there is no trace of rank 0, 3" in capsys.readouterr().err
    assert main(["trace", "view", str(tmp_path / "job"), "--rank", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["only"] == 2
