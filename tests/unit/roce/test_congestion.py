"""Without congestion control the rate is fixed."""

from __future__ import annotations

import pytest

from emulator.roce.rate.congestion import FixedRate


@pytest.mark.parametrize("rate", [None, 1e9])
def test_neither_notifications_nor_bytes_change_a_fixed_rate(rate: float | None) -> None:
    control = FixedRate(rate)
    control.notified(5)
    control.sent(1 << 30, 6)
    assert control.rate_bps(7) == rate
