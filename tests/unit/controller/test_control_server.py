import importlib
import logging

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


def test_what_the_poller_of_grpc_raises_in_an_event_loop_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    suppress_grpc_tracebacks()
    for name in ("PollerCompletionQueue._handle_events()", "Passes._pass()"):
        logging.getLogger("asyncio").error(
            "Exception in callback %s", name, exc_info=BlockingIOError(11, "unavailable")
        )
    assert [one.getMessage() for one in caplog.records] == ["Exception in callback Passes._pass()"]
