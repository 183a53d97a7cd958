from pathlib import Path

import pytest

from emulator.errors import TraceError
from emulator.trace.files import truncated_file

PATH = Path("t.0.et")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (truncated_file.empty_file(PATH), "t.0.et, offset 0: the file is empty"),
        (
            truncated_file.ends_inside_record(PATH, 70),
            "t.0.et, offset 70: the file ends inside the record that starts here: it is cut off or corrupt",
        ),
        (truncated_file.ends_inside_compressed_data(PATH, 70), "t.0.et, offset 70: the compressed data is cut off"),
        (
            truncated_file.empty_record(PATH, 70),
            "t.0.et, offset 70: an empty record instead of a node: the file is cut off or corrupt",
        ),
        (
            truncated_file.impossible_length(PATH, 70, size=1 << 30, limit=1 << 26),
            "t.0.et, offset 70: a record of 1,073,741,824 bytes, more than the 67,108,864 allowed: the file is corrupt",
        ),
        (
            truncated_file.impossible_length(PATH, 70, size=None, limit=1 << 26),
            "t.0.et, offset 70: the length of a record is not a number: the file is corrupt",
        ),
    ],
)
def test_every_error_names_the_file_and_the_offset(error: TraceError, text: str) -> None:
    assert str(error) == text
