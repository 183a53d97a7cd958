from __future__ import annotations

import pytest

from emulator.annexes.telemetry.publishing import PASSWORD_VARIABLE, broker, publishing
from emulator.errors import InputError
from emulator.experiment.spec.spec import Observe
from emulator.results.run_folder.observer import RunHeader

FACTS = RunHeader("run-1", "trace", 2, 3, 6, "runs/x")


def test_a_run_that_is_not_published_has_no_observers() -> None:
    with publishing(Observe(), [FACTS], notify=lambda _: None) as observers:
        assert observers == [[]]


def test_the_password_of_the_broker_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "hush")
    found = broker("mqtt://me@localhost/lab")
    assert (found.host, found.password) == ("localhost", "hush")


@pytest.mark.parametrize("observe", [Observe(mqtt="http://localhost"), Observe(metrics="everywhere")])
def test_an_address_that_cannot_be_used_is_refused_before_the_run(observe: Observe) -> None:
    with pytest.raises(InputError), publishing(observe, [FACTS], notify=lambda _: None):
        pass
