"""`charkha runs audit`: output and exit codes."""

import json
from pathlib import Path

import pytest

from emulator.cli.main import main
from emulator.roce.wire.opcodes import Opcode
from tests.support.roce_capture import MTU, Conversation


@pytest.fixture
def path(tmp_path: Path) -> Path:
    talk = Conversation()
    talk.write(3 * MTU)
    return talk.save(tmp_path / "c.pcap")


def test_a_capture_that_breaks_off_says_so(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_bytes(path.read_bytes()[:-9])
    assert main(["runs", "audit", str(path)]) == 0
    assert "damaged or ends early after frame 2" in " ".join(capsys.readouterr().out.split())


def test_violations_are_shown_with_their_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk = Conversation()
    frame = talk.request(Opcode.RC_SEND_FIRST, payload=bytes(100))
    assert main(["runs", "audit", str(talk.save(tmp_path / "c.pcap"))]) == 1
    assert f"frame {frame}: path-mtu: FIRST has 100 bytes" in capsys.readouterr().out


def test_json_is_the_whole_report(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "audit", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["frames"], report["violations"]) == (3, [])
