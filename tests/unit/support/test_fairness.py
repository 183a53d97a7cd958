import pyarrow as pa
import pytest

from emulator.run_folder.schema import COUNTERS_SCHEMA, to_batch
from tests.support.fairness import shares

SECOND = 10**9


def table(*senders: list[int]) -> pa.Table:
    """Bytes that each sender had sent at second 0, 1, 2 …"""
    rows = [(s * SECOND, f"h{n}", value) for n, values in enumerate(senders) for s, value in enumerate(values)]
    times, devices, values = (list(column) for column in zip(*rows, strict=True))
    columns = {"time_ns": times, "device": devices, "interface": "eth0", "counter": "tx_bytes", "value": values}
    return pa.Table.from_batches([to_batch(COUNTERS_SCHEMA, columns)])


def test_rates_converge_where_all_are_near_their_mean() -> None:
    counters = table([0, 900, 1400, 1900], [0, 100, 550, 1050])
    found = shares(counters, [("h0", "eth0"), ("h1", "eth0")], start_ns=0, end_ns=3 * SECOND, window_ns=SECOND)
    assert found.rate_bps.tolist() == [[7200, 4000, 4000], [800, 3600, 4000]]
    assert found.converged == 1
    assert found.jain(found.converged) == pytest.approx(1950**2 / (2 * (1000**2 + 950**2)))
    assert found.jain() < found.jain(1)


def test_senders_that_never_share_do_not_converge() -> None:
    found = shares(
        table([0, 10, 20], [0, 0, 0]), [("h0", "eth0"), ("h1", "eth0")], start_ns=0, end_ns=2 * SECOND, window_ns=SECOND
    )
    assert found.converged is None
    assert found.jain() == 0.5


def test_a_rest_shorter_than_a_window_is_left_out() -> None:
    found = shares(table([0, 8]), [("h0", "eth0")], start_ns=0, end_ns=SECOND - 1, window_ns=SECOND // 2)
    assert found.rate_bps.tolist() == [[64]]
