"""Names that say which request a node serves."""

from __future__ import annotations

import pytest

from emulator.trace.meaning.key_value_names import key_value_name, request_of


def test_names_are_read_back() -> None:
    assert key_value_name(12, 5, is_send=True) == "request.12.kv.to.5"
    assert key_value_name(12, 5, is_send=False) == "request.12.kv.from.5"
    assert request_of(key_value_name(12, 5, is_send=True)) == request_of(key_value_name(12, 5, is_send=False)) == 12


@pytest.mark.parametrize("name", ["request.12.prefill", "request.x.kv.to.5", "request.1.kv.to.5.all_reduce", ""])
def test_other_names_name_no_request(name: str) -> None:
    assert request_of(name) is None
