"""Publishing a run while it is played: to an MQTT broker, and for Prometheus."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from emulator.errors import EmulatorError, RunAborted
from emulator.experiment.spec import Observe
from emulator.run_folder.manifest import ABORTED, COMPLETE
from emulator.run_folder.observer import RunObserver
from emulator.telemetry.broker import Broker
from emulator.telemetry.digest import IterationDigest
from emulator.telemetry.endpoint import MetricsEndpoint, new_registry, parse_address
from emulator.telemetry.messages import Composer
from emulator.telemetry.publisher import MqttPublisher
from emulator.telemetry.reporter import RunFacts, TelemetryReporter
from emulator.telemetry.run_metrics import RunMetrics

PASSWORD_VARIABLE = "CHARKHA_MQTT_PASSWORD"
Notify = Callable[[str], None]


def broker(url: str) -> Broker:
    """The broker of a URL, with the password from the environment.

    Raises:
        InputError: not a URL of a broker.
    """
    return Broker.parse(url, password=os.environ.get(PASSWORD_VARIABLE))


@contextmanager
def publishing(observe: Observe, facts: RunFacts, *, notify: Notify) -> Iterator[list[RunObserver]]:
    """Observers that publish a run over MQTT and for Prometheus while the context is open.

    Raises:
        InputError: an address cannot be used.
        HostError: a library is missing, or the port for metrics is in use.
    """
    with ExitStack() as stack:
        publishers: list[RunMetrics | TelemetryReporter] = []
        if observe.metrics is not None:
            registry = new_registry()
            publishers.append(RunMetrics(registry, facts))
            endpoint = stack.enter_context(MetricsEndpoint(registry, parse_address(observe.metrics)))
            notify(f"metrics at {endpoint.url}")
        if observe.mqtt is not None:
            publishers.append(stack.enter_context(_published(broker(observe.mqtt), facts, notify=notify)))
        yield [*publishers, IterationDigest(publishers)] if publishers else []


@contextmanager
def _published(target: Broker, facts: RunFacts, *, notify: Notify) -> Iterator[TelemetryReporter]:
    composer = Composer(facts.run_id, target.prefix)
    publisher = MqttPublisher(target, will=composer.will())
    with publisher:
        reporter = TelemetryReporter(facts, composer, publisher)
        reporter.begin()
        try:
            yield reporter
        except BaseException as error:
            reporter.end(ABORTED, _reason(error))
            raise
        else:
            reporter.end(COMPLETE, None)
    lost = publisher.dropped + publisher.undelivered
    if lost:
        notify(f"{lost} telemetry messages did not reach {target.host}:{target.port}")


def _reason(error: BaseException) -> str:
    if isinstance(error, RunAborted):
        return error.reason
    return str(error) if isinstance(error, EmulatorError) else type(error).__name__
