"""Who is told what a run is doing while it goes on: a broker, a scraper."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from emulator.cli.options.telemetry import PASSWORD_VARIABLE
from emulator.errors import EmulatorError, RunAborted
from emulator.run_folder.manifest import ABORTED, COMPLETE
from emulator.run_folder.observer import RunObserver
from emulator.telemetry.digest import IterationDigest
from emulator.telemetry.messages import Composer
from emulator.telemetry.metrics import MetricsEndpoint, RunMetrics, new_registry, parse_address
from emulator.telemetry.mqtt import Broker, MqttPublisher
from emulator.telemetry.reporter import RunFacts, TelemetryReporter


def broker(url: str) -> Broker:
    """The broker of a URL, with the password of the environment.

    Raises:
        InputError: no such URL.
    """
    return Broker.parse(url, password=os.environ.get(PASSWORD_VARIABLE))


@contextmanager
def telemetry(args: argparse.Namespace, facts: RunFacts) -> Iterator[list[RunObserver]]:
    """Observers that tell others, for the length of a run.

    Raises:
        InputError: an option cannot be used.
        HostError: a library is missing, or the metrics' port is taken.
    """
    with ExitStack() as stack:
        told: list[RunMetrics | TelemetryReporter] = []
        if args.metrics is not None:
            registry = new_registry()
            told.append(RunMetrics(registry, facts))
            endpoint = stack.enter_context(MetricsEndpoint(registry, parse_address(args.metrics)))
            print(f"charkha: metrics at {endpoint.url}", file=sys.stderr)
        if args.mqtt is not None:
            told.append(stack.enter_context(_published(broker(args.mqtt), facts)))
        yield [*told, IterationDigest(told)] if told else []


@contextmanager
def _published(target: Broker, facts: RunFacts) -> Iterator[TelemetryReporter]:
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
        print(f"charkha: {lost} telemetry messages did not reach {target.host}:{target.port}", file=sys.stderr)


def _reason(error: BaseException) -> str:
    if isinstance(error, RunAborted):
        return error.reason
    return str(error) if isinstance(error, EmulatorError) else type(error).__name__
