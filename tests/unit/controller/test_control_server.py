import importlib

import pytest

from emulator.controller.roster.control_server import suppress_grpc_tracebacks


def test_tracebacks_of_cancelled_calls_are_not_printed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cygrpc = importlib.import_module("grpc._cython.cygrpc")
    monkeypatch.setattr(cygrpc, "traceback", cygrpc.traceback)
    suppress_grpc_tracebacks()
    try:
        raise ValueError("of a call")
    except ValueError:
        cygrpc.traceback.print_exc()
        assert "of a call" in cygrpc.traceback.format_exc()
    assert capfd.readouterr() == ("", "")
