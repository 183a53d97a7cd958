import json
from pathlib import Path

import pytest

from emulator._pb import et_pb2
from emulator.cli.main import main
from tests.support.trace_files import attribute, collective, compute, write

SECRETS = ("acme", "/home/alice", "node17", "secret-run", "libtorch")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "acme-run"
    folder.mkdir()
    metadata = et_pb2.GlobalMetadata(
        version="0.0.4", attr=[attribute("schema", string_val="acme 1"), attribute("host", string_val="node17")]
    )
    for rank in range(2):
        nodes = [
            compute(
                11,
                duration_micros=900,
                attr=[attribute("path", string_val="/home/alice"), attribute("rf_id", int64_val=4)],
            ),
            collective(
                20,
                attribute("pg_name", string_val="secret-run"),
                attribute("kernel_file", string_val="libtorch"),
                data_deps=[11],
            ),
        ]
        nodes[0].name, nodes[1].name = "acme.layer", "acme.reduce"
        nodes[0].inputs.values = "/home/alice/weights"
        write(folder / f"acme.{rank}.et", nodes, metadata)
    (folder / "comm_group.json").write_text('{"secret-run": [0, 1]}')
    return folder


def test_nothing_of_the_source_is_in_the_copy(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["trace", "anonymize", str(source), str(tmp_path / "copy"), "--jitter", "5%", "--seed", "918273645"]) == 0
    )
    assert "5 attributes" not in capsys.readouterr().err
    files = sorted((tmp_path / "copy").iterdir())
    assert [path.name for path in files] == ["comm_group.json", "trace.0.et", "trace.1.et"]
    content = b"".join(path.read_bytes() for path in files)
    assert not [secret for secret in SECRETS if secret.encode() in content]
    assert main(["trace", "check", str(tmp_path / "copy"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["communication_nodes"] == {"all_reduce": 2}
    assert found["schemas"] == ["charkha.anonymize"]


def test_what_was_replaced_left_out_and_remains_is_said(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "anonymize", str(source), str(tmp_path / "copy"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ranks"], found["nodes"], found["names"], found["groups"], found["jitter"]) == (2, 4, 2, 1, None)
    assert found["dropped"] == {"path": 2, "rf_id": 2, "kernel_file": 2}
    assert "durations, and times from start to start" in found["recognisable"]
    assert main(["trace", "diff", str(source), str(tmp_path / "copy")]) == 0
    assert capsys.readouterr().out.startswith("the same but for names\n")


def test_the_terminal_lists_what_can_be_recognised(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["trace", "anonymize", str(source), str(tmp_path / "copy"), "--jitter", "0.1"])
    text = capsys.readouterr().out
    assert "still recognisable" in text
    assert "factors from 0.9 to 1.1" in text
    assert "3 attributes: path, rf_id, kernel_file" in text
