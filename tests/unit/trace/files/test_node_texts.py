from pathlib import Path

from emulator.trace.files.node_texts import read_texts
from tests.support.trace_files import attribute, collective, compute, write


def test_names_in_file_order_and_attributes_that_no_player_reads(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.0.et",
        [
            compute(9, attr=[attribute("tid", int64_val=3)]),
            collective(2, attribute("tid", int64_val=4), attribute("host")),
        ],
    )
    texts = read_texts(path)
    assert texts.names == ["compute 9", "all_reduce"]
    assert texts.idle == {"tid": 2, "host": 1}
