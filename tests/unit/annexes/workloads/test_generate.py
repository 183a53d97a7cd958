"""`charkha trace generate` from arguments to files and table."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from emulator.annexes.workloads.options import option
from emulator.annexes.workloads.transformer import PipelineSchedule
from emulator.cli.main import main
from emulator.cli.options import add_options, given
from emulator.cli.parser import Parser
from emulator.errors import InputError
from emulator.option import options_of
from emulator.units import parse_size
from tests.support.command import refused
from tests.support.et_files import read_et

SMALL = ["--layers", "2", "--hidden", "8", "--sequence", "4", "--batch", "4", "--vocabulary", "16"]


def _run(*arguments: str) -> int:
    return main(["trace", "generate", *arguments])


def test_transformer_prints_what_it_will_move(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    degrees = ["--tensor", "2", "--pipeline", "2", "--data", "2", "--micro-batches", "2", "--schedule", "gpipe"]
    assert _run("transformer", *SMALL, *degrees, "--out", str(tmp_path / "t")) == 0
    printed = capsys.readouterr().out
    for word in ("tensor", "pipeline", "data", "embedding", "world", "all_reduce", "send", "recv", "comm_group.json"):
        assert word in printed
    assert len(list((tmp_path / "t").glob("transformer.*.et"))) == 8


def test_json_totals_agree_with_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("transformer", *SMALL, "--tensor", "2", "--recompute", "--out", str(tmp_path / "t"), "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    nodes = [node for path in (tmp_path / "t").glob("*.et") for node in read_et(path)[1]]
    assert summary["ranks"] == 2
    assert summary["nodes"] == len(nodes)
    assert summary["compute_micros"] == sum(node.duration_micros for node in nodes)
    sizes = [attr.int64_val for node in nodes for attr in node.attr if attr.name == "comm_size"]
    assert sum(entry["total_bytes"] for entry in summary["traffic"]) == sum(sizes)
    assert summary["parameters"]["recompute"] == 1


def test_every_option_reaches_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--micro-batches", "2", "--ffn-multiplier", "3", "--dtype-bytes", "4", "--data", "2", "--schedule"]
    options += ["gpipe", "--shard-optimizer", "--tflops", "12.5", "--memory-gbytes", "7", "--out", str(tmp_path)]
    assert _run("transformer", *SMALL, *options, "--json") == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == {
        **{"layers": 2, "hidden": 8, "sequence": 4, "batch": 4, "micro_batches": 2, "vocabulary": 16},
        **{"ffn_multiplier": 3, "dtype_bytes": 4, "tensor": 1, "pipeline": 1, "data": 2, "schedule": "gpipe"},
        **{"recompute": 0, "shard_optimizer": 1, "device_tflops": "12.5", "device_gbytes_per_s": "7"},
        **{"experts": 1, "top_k": 1, "context": 1, "expert": 1, "sequence_parallel": 0, "context_exchange": "ring"},
        **{"virtual_stages": 1},
    }


def test_collective_takes_sizes_as_people_write_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["all_gather", "-n", "4", "-b", "64M", "--count", "3", "--gap-micros", "10", "--json"]
    assert _run("collective", *arguments, "--out", str(tmp_path)) == 0
    (traffic,) = json.loads(capsys.readouterr().out)["traffic"]
    assert (traffic["operation"], traffic["size_bytes"], traffic["operations"]) == ("all_gather", 16 << 20, 3)
    assert len(read_et(tmp_path / "all_gather.3.et")[1]) == 6


def test_moe_moves_the_published_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--expert", "4", "--layers", "1", "--tokens", "128", "--forward-only", "--seed", "3"]
    assert _run("moe", *sizes, "--out", str(tmp_path), "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    of_role = {entry["role"]: entry["total_bytes"] for entry in summary["traffic"]}
    assert of_role == {"dispatch": 4 * 7_569_408, "combine": 4 * 14_680_064}
    assert summary["parameters"]["routing"] == "uniform"
    splits = [attr for node in read_et(tmp_path / "moe.1.et")[1] for attr in node.attr if "splits" in attr.name]
    assert len(splits) == 4


def test_inference_takes_requests_of_a_file_or_of_a_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = '{"timestamp": 0, "input_length": 10, "output_length": 1}\n'
    (tmp_path / "requests.jsonl").write_text(3 * line)
    source = ["--trace", str(tmp_path / "requests.jsonl"), "--requests", "2"]
    assert _run("inference", *source, "--out", str(tmp_path / "file"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["traffic"][0]["total_bytes"] == 2 * 10 * 327_680
    assert _run("inference", "--rate", "5", "--requests", "7", "--out", str(tmp_path / "rate"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["parameters"]["requests"] == 7
    (tmp_path / "requests.jsonl").write_text(f"{line}{{}}\n")
    words = ("trace", "generate", "inference", *source, "--out", tmp_path / "none")
    assert "requests.jsonl, line 2: " in refused(*words)
    assert not (tmp_path / "none").exists()


def test_one_rank_is_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("collective", "barrier", "-n", "1", "--out", str(tmp_path)) == 0
    assert "barrier.0.et\n" in capsys.readouterr().out


def test_a_folder_with_files_needs_force(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    words = ("trace", "generate", "collective", "all_reduce", "-n", "2", "-b", "8", "--out", tmp_path)
    assert "--force" in refused(*words)
    assert _run("collective", "all_reduce", "-n", "2", "-b", "8", "--out", str(tmp_path), "--force") == 0


@pytest.mark.parametrize("arguments", [[], ["transformer"], ["moe"], ["inference"], ["collective"]])
def test_help_has_an_example(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        _run(*arguments, "--help")
    assert exit_.value.code == 0
    assert "charkha trace generate " in capsys.readouterr().out.partition("example")[2]


@dataclass(frozen=True)
class Described:
    kind: str = option("what", flags="kind", metavar="WHAT")
    size_bytes: int = option("size", flags="-b --bytes", read=parse_size)
    schedule: PipelineSchedule = option("order", default=PipelineSchedule.ONE_F_ONE_B, group="order")
    is_lean: bool = option("lean", default=False)
    limit: float | None = option("limit", default=None, unset="none", is_advanced=True)


def _parsed(*words: str) -> Described:
    parser = Parser(prog="make")
    add_options(parser, options_of(Described))
    return Described(**given(parser.parse_args(list(words)), options_of(Described)))


def test_arguments_become_values_of_the_fields() -> None:
    given = _parsed("it", "-b", "4K", "--schedule", "gpipe", "--is-lean", "--limit", "2.5")
    assert given == Described("it", 4096, PipelineSchedule.GPIPE, True, 2.5)


def test_what_is_not_given_has_the_default_of_the_field() -> None:
    assert _parsed("it", "-b", "1") == Described("it", 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["it"], "required: -b/--bytes"),
        (["it", "-b", "x"], "'x' is not a size"),
        (["it", "-b", "1", "--schedule", "gpip"], "did you mean 'gpipe'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(InputError) as refused:
        _parsed(*words)
    assert message in str(refused.value)
