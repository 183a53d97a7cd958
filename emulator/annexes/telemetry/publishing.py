"""Publishing a run while it is played: to an MQTT broker, and for Prometheus."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import repeat

from emulator.annexes.telemetry.broker import Broker
from emulator.annexes.telemetry.digest import IterationDigest
from emulator.annexes.telemetry.messages import Composer
from emulator.annexes.telemetry.publisher import MqttPublisher
from emulator.annexes.telemetry.reporter import TelemetryReporter
from emulator.annexes.telemetry.run_metrics import RunMetrics, labelled
from emulator.errors import EmulatorError, RunAborted
from emulator.experiment.spec.spec import Observe
from emulator.host.metrics_endpoint import MetricsEndpoint, new_registry, parse_address
from emulator.results.run_folder.manifest import ABORTED, COMPLETE
from emulator.results.run_folder.observer import RunHeader, RunObserver

PASSWORD_VARIABLE = "CHARKHA_MQTT_PASSWORD"
Notify = Callable[[str], None]


def broker(url: str) -> Broker:
    """The broker of a URL, with the password from the environment.

    Raises:
        InputError: not a URL of a broker.
    """
    return Broker.parse(url, password=os.environ.get(PASSWORD_VARIABLE))


@contextmanager
def publishing(
    observe: Observe, facts: Sequence[RunHeader], *, notify: Notify, jobs: Sequence[str] | None = None
) -> Iterator[list[list[RunObserver]]]:
    """Observers that publish runs over MQTT and for Prometheus while the context is open, for each run.

    Args:
        observe: where to publish.
        facts: of the runs.
        notify: receives lines for the user.
        jobs: names of the runs' jobs, which tell them apart; None: there is one.

    Raises:
        InputError: an address cannot be used.
        HostError: a library is missing, or the port for metrics is in use.
    """
    publishers: list[list[RunMetrics | TelemetryReporter]] = [[] for _ in facts]
    with ExitStack() as stack:
        if observe.metrics is not None:
            registries = [new_registry() for _ in facts]
            for own, registry, one in zip(publishers, registries, facts, strict=True):
                own.append(RunMetrics(registry, one))
            served = registries[0] if jobs is None else labelled(dict(zip(jobs, registries, strict=True)))
            endpoint = stack.enter_context(MetricsEndpoint(served, parse_address(observe.metrics)))
            notify(f"metrics at {endpoint.url}")
        if observe.mqtt is not None:
            target = broker(observe.mqtt)
            for own, one, job in zip(publishers, facts, jobs or repeat(None, 1), strict=True):
                own.append(stack.enter_context(_published(target, one, job=job, notify=notify)))
        yield [[*own, IterationDigest(own)] if own else [] for own in publishers]


@contextmanager
def _published(target: Broker, facts: RunHeader, *, job: str | None, notify: Notify) -> Iterator[TelemetryReporter]:
    composer = Composer(facts.run_id, target.prefix, job)
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
