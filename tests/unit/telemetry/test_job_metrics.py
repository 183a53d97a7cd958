"""Metrics of several jobs at one endpoint."""

from __future__ import annotations

from prometheus_client import generate_latest

from emulator.telemetry.endpoint import new_registry
from emulator.telemetry.job_metrics import labelled
from emulator.telemetry.reporter import RunFacts
from emulator.telemetry.run_metrics import RunMetrics


def test_every_metric_is_there_once_with_the_samples_of_all_jobs() -> None:
    registries = {"a": new_registry(), "b": new_registry()}
    for number, (job, registry) in enumerate(registries.items()):
        metrics = RunMetrics(registry, RunFacts(f"run-{job}", "trace", 2 + number, 3, 6, "runs/x"))
        metrics.agent_moved("agent-0", bytes_sent=7 + number, nodes_done=1, waiting_on="")
    lines = generate_latest(labelled(registries)).decode().splitlines()
    assert {'charkha_ranks{job="a"} 2.0', 'charkha_ranks{job="b"} 3.0'} <= set(lines)
    assert 'charkha_agent_payload_bytes{agent="agent-0",job="b"} 8.0' in lines
    assert lines.count("# TYPE charkha_ranks gauge") == 1
