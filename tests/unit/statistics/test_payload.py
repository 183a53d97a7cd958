"""Payload by row of the samples."""

from __future__ import annotations

from emulator.statistics.payload import moved_bytes
from tests.support.runs import collective, row, table


def test_what_a_storage_host_sends_counts_at_the_rank_that_reads_it() -> None:
    stored = {"group_size": 1, "size_bytes": 70}
    rows = [
        *collective([0, 0], [9, 9], bytes_sent=5, bytes_received=5),
        row(kind="storage_write", bytes_sent=70, bytes_received=0, **stored),
        row(kind="storage_read", bytes_sent=0, bytes_received=70, **stored),
    ]
    assert moved_bytes(table(rows)).tolist() == [5, 5, 70, 70]
