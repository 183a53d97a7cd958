"""How an agent of this host begins: what it lacks while it loads its modules is named."""

import signal
import sys
from types import ModuleType

import pytest

from agents import __main__ as process


class Loading(ModuleType):
    """In place of what an agent loads."""

    lack: Exception

    def __getattr__(self, name: str) -> object:
        raise self.lack if name == "run_agent" else AttributeError(name)


@pytest.mark.parametrize(
    "lack", [MemoryError(), ImportError("cygrpc.so: failed to map segment from shared object")], ids=type
)
def test_memory_that_ends_while_it_loads_is_named(
    lack: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loading = Loading("agents.process")
    loading.lack = lack
    monkeypatch.setitem(sys.modules, "agents.process", loading)
    monkeypatch.setattr(process, "die_with_parent", lambda: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert process.main(["--controller", "unix:c", "--name", "a"]) == 3
    assert capsys.readouterr().err.startswith("charkha agent a: out of memory")
