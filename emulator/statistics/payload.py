"""Payload that samples account for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from emulator.statistics.table_columns import labels_and_codes, to_ints
from emulator.trace.model import CommKind, IntArray


def moved_bytes(samples: pa.Table) -> IntArray:
    """Payload by row, each byte once: what the rank sent, and what a storage host, which has no rows, sent to it.

    Args:
        samples: with `kind`, `size_bytes` and `bytes_sent`.
    """
    labels, codes = labels_and_codes(samples["kind"])
    is_read = np.array([label == CommKind.STORAGE_READ.label for label in labels], np.bool_)[codes]
    return to_ints(samples["bytes_sent"]) + np.where(is_read, to_ints(samples["size_bytes"]), 0)
