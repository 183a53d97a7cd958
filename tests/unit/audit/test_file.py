"""The audit of a capture file."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.audit.file import audit_file
from emulator.errors import InputError
from tests.support.roce_capture import MTU, Conversation


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A capture of one RDMA WRITE of three packets."""
    talk = Conversation()
    talk.write(3 * MTU)
    return talk.save(tmp_path / "c.pcap")


def test_every_frame_of_the_file_is_audited(capture: Path) -> None:
    report = audit_file(capture)
    assert report.frames == report.roce_frames
    assert (report.frames > 0, list(report.violations)) == (True, [])


def test_frames_for_another_port_are_not_audited(capture: Path) -> None:
    with pytest.raises(InputError, match=r"c\.pcap: none of its \d+ frames goes to UDP port 4792 \(.*--port\)$"):
        audit_file(capture, port=4792)


def test_a_file_that_ends_before_the_first_frame_is_reported(capture: Path) -> None:
    capture.write_bytes(capture.read_bytes()[:30])
    with pytest.raises(InputError, match=r"none of its 0 frames .*; the file is damaged or ends early"):
        audit_file(capture)
