"""Files of requests: what is read, and errors that name line and key."""

import json
from pathlib import Path

import pytest

from emulator.annexes.workloads.inference import Request
from emulator.annexes.workloads.mooncake import read_requests
from emulator.errors import HostError, InputError

GOOD = {"timestamp": 27482, "input_length": 700, "output_length": 52, "hash_ids": [46, 47], "session": "left alone"}


def _file(tmp_path: Path, *lines: object) -> Path:
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(line if isinstance(line, str) else f"{json.dumps(line)}\n" for line in lines))
    return path


def test_requests_are_read_in_order(tmp_path: Path) -> None:
    late = {"timestamp": 30535.5, "input_length": 3, "output_length": 0}
    path = _file(tmp_path, GOOD, "\n", late)
    expected = [Request(27_482_000, 700, 52, (46, 47)), Request(30_535_500, 3, 0)]
    assert read_requests(path, block_tokens=512) == expected
    assert read_requests(path, block_tokens=512, most=1) == expected[:1]


def test_a_trace_that_numbers_its_chats_has_seconds(tmp_path: Path) -> None:
    chat = {"parent_chat_id": -1, "input_length": 17, "output_length": 2, "type": "text", "turn": 1, "hash_ids": [4, 5]}
    path = _file(tmp_path, chat | {"chat_id": 159, "timestamp": 61.114}, chat | {"chat_id": 160, "timestamp": 62.5})
    found = read_requests(path, block_tokens=16)
    assert [one.at_micros for one in found] == [61_114_000, 62_500_000]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (GOOD | {"timestamp": 27481}, "line 2: timestamp 27481 is before that of the request above it"),
        (GOOD | {"timestamp": "soon"}, "line 2: timestamp: expected"),
        (GOOD | {"timestamp": 1e300}, "line 2: timestamp is 1e+300"),
        (GOOD | {"input_length": 0}, "line 2: input_length is 0: it must be from 1"),
        (GOOD | {"input_length": 1.5}, "line 2: input_length"),
        (GOOD | {"output_length": -1}, "line 2: output_length is -1"),
        (GOOD | {"hash_ids": [1]}, "line 2: 1 hash_ids, but 700 tokens are 2 blocks of 512"),
        (GOOD | {"hash_ids": ["a", "b"]}, "line 2: hash_ids[0]"),
        ({"timestamp": 30000}, "line 2: "),
        (
            {"session_id": "a", "delay": 5, "input_length": 3, "output_length": 1},
            "line 2: has a delay after the answer",
        ),
        ({"timestamp": 30000, "input_length": 3}, "line 2: has no output_length"),
        ({"timestamp": 30000, "text_input": "a", "output_length": 3}, "line 2: has its prompt as text_input and no"),
        ('{"timestamp": 30000, ', "line 2: not JSON"),
        ("[1]\n", "line 2: "),
        (f'{{"a": {"[" * 100_000}{"]" * 100_000}}}', "line 2: nested too deeply"),
    ],
)
def test_a_line_that_is_no_request_is_named(tmp_path: Path, line: object, problem: str) -> None:
    with pytest.raises(InputError) as refused:
        read_requests(_file(tmp_path, GOOD, line), block_tokens=512)
    assert str(refused.value).startswith(str(tmp_path / "requests.jsonl"))
    assert problem in str(refused.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        read_requests(tmp_path / "none", block_tokens=512)
    with pytest.raises(HostError, match="cannot read"):
        read_requests(tmp_path, block_tokens=512)
    (tmp_path / "binary").write_bytes(b"\x80\x00")
    with pytest.raises(InputError, match="no UTF-8"):
        read_requests(tmp_path / "binary", block_tokens=512)
