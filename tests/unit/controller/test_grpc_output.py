import importlib

import pytest

from emulator.controller.grpc_output import print_no_tracebacks


def test_what_grpc_prints_of_a_cancelled_call_reaches_no_user(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cygrpc = importlib.import_module("grpc._cython.cygrpc")
    monkeypatch.setattr(cygrpc, "traceback", cygrpc.traceback)
    print_no_tracebacks()
    try:
        raise ValueError("of a call")
    except ValueError:
        cygrpc.traceback.print_exc()
        assert "of a call" in cygrpc.traceback.format_exc()
    assert capfd.readouterr() == ("", "")
