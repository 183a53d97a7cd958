"""`charkha runs export` as a user meets it, in this process."""

import sys
from pathlib import Path

import pytest

from emulator.cli.main import main
from emulator.plugins import BUILT_IN, PluginKind
from tests.support.command import refused
from tests.support.runs import collective, ranks, write_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder below the current folder."""
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs" / "one", collective([0, 0], [70, 80]), iterations={0: ranks((0, 100), (5, 110))})
    return Path("runs/one")


def test_a_file_is_named_after_the_run_and_its_path_is_printed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(run.iterdir())
    assert main(["runs", "export", str(run), "--to", "junit"]) == 0
    streams = capsys.readouterr()
    assert (streams.out, streams.err) == ("one.junit.xml\n", "")
    assert Path("one.junit.xml").read_text().startswith("<testsuites ")
    assert sorted(run.iterdir()) == before
    assert "it exists" in refused("runs", "export", run, "--to", "junit")


def test_another_name_can_be_given(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "export", str(run), "--to", "csv", "--out", "tables"]) == 0
    assert capsys.readouterr().out == "tables\n"
    assert Path("tables", "samples.csv").is_file()


@pytest.mark.parametrize("name", ["nccl-tests", "nccl-tests-json", "junit", "perfetto"])
def test_a_dash_is_stdout_for_formats_of_one_file(
    run: Path, name: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    here = sorted(Path().iterdir())
    assert main(["runs", "export", str(run), "--to", name, "--out", "-"]) == 0
    assert main(["runs", "export", str(run), "--to", name, "--out", "file"]) == 0
    assert capfdbinary.readouterr().out == Path("file").read_bytes() + b"file\n"
    assert sorted(Path().iterdir()) == sorted([*here, Path("file")])


@pytest.mark.parametrize(
    ("name", "package", "options"),
    [
        ("perfetto", "perfetto.trace_builder.proto_builder", []),
        ("otel", "opentelemetry.sdk.metrics.export", ["--endpoint", "http://127.0.0.1:9"]),
    ],
)
def test_a_missing_package_is_named_before_anything_is_read(
    name: str, package: str, options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["runs", "export", "nowhere", "--to", name, *options]) == 3
    assert "pip install 'charkha[export]'" in capsys.readouterr().err


def test_the_help_describes_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["runs", "export", "--help"])
    shown = capsys.readouterr().out
    listed = [line.split()[0] for line in shown.partition("formats:\n")[2].split("\n\n")[0].splitlines()]
    names = {name for entry in listed for name in {entry.replace("[-json]", ""), entry.replace("[-json]", "-json")}}
    assert names == {*BUILT_IN[PluginKind.EXPORTS], "otel"}
