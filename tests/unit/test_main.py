"""How the command begins: an interrupt or a lack while it loads its modules ends it, and shows no traceback."""

import signal
import sys
from types import ModuleType
from typing import Any

import pytest

from emulator.__main__ import main


class Loading(ModuleType):
    """In place of the command line; remembers what an interrupt would do while it is imported."""

    handlers: list[Any]
    lack: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        if name != "main":
            raise AttributeError(name)
        if self.lack is not None:
            raise self.lack
        self.handlers.append(signal.getsignal(signal.SIGINT))
        return self.command

    def command(self) -> int:
        self.handlers.append(signal.getsignal(signal.SIGINT))
        return 7


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> Loading:
    module = Loading("emulator.cli.main")
    module.handlers = []
    monkeypatch.setitem(sys.modules, "emulator.cli.main", module)
    return module


def test_an_interrupt_ends_the_process_until_the_command_can_report_it(loading: Loading) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert main() == 7
    assert loading.handlers == [signal.SIG_DFL, signal.default_int_handler]


def test_an_ignored_interrupt_stays_ignored(loading: Loading) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert loading.handlers == [signal.SIG_IGN, signal.SIG_IGN]


@pytest.mark.parametrize(
    ("lack", "said"),
    [
        (OSError(24, "Too many open files", "main.py"), "Too many open files: 'main.py'"),
        (MemoryError(), "out of memory"),
    ],
)
def test_what_is_lacking_is_named(
    loading: Loading, lack: Exception, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    loading.lack = lack
    assert main() == 3
    shown = capsys.readouterr().err
    assert shown.startswith("charkha: ")
    assert said in shown
    assert len(shown.splitlines()) == 1
