"""Metrics of a run, as a scraper reads them."""

from __future__ import annotations

import json
import re

import pytest
from prometheus_client import generate_latest

from emulator.annexes.telemetry.digest import IterationDigest
from emulator.annexes.telemetry.run_metrics import RunMetrics, labelled
from emulator.host.metrics_endpoint import new_registry
from emulator.results.run_folder.observer import RunHeader
from tests.support.command import ROOT
from tests.support.runs import collective, columns

FACTS = RunHeader("r1", "a trace", ranks=2, iterations=2, nodes=8, run_folder="runs/r1")


def test_metrics_follow_a_run() -> None:
    registry = new_registry()
    metrics = RunMetrics(registry, FACTS)
    digest = IterationDigest([metrics])
    metrics.iteration_started(0)
    metrics.completed(2)
    digest.recorded(columns(collective([0, 0], [4000, 4000])))
    metrics.agent_moved("agent-0", bytes_sent=77, nodes_done=1, waiting_on="")
    metrics.iteration_done(0, 2_000_000)
    digest.iteration_done(0, 2_000_000)
    labels = {"collective": "all_reduce", "group_size": "2", "size_bytes": "1000", "algorithm": "ring"}
    assert registry.get_sample_value("charkha_jct_seconds") == pytest.approx(0.002)
    assert registry.get_sample_value("charkha_communication_nodes_done_total") == 2
    assert registry.get_sample_value("charkha_cct_seconds", labels) == pytest.approx(4e-6)
    assert registry.get_sample_value("charkha_busbw_bytes_per_second", labels) == pytest.approx(250e6)
    assert registry.get_sample_value("charkha_agent_payload_bytes", {"agent": "agent-0"}) == 77


def test_what_is_known_before_the_run_is_there_at_once() -> None:
    registry = new_registry()
    RunMetrics(registry, FACTS)
    info = {"run_id": "r1", "trace": "a trace", "run_folder": "runs/r1"}
    assert registry.get_sample_value("charkha_run_info", info) == 1
    assert registry.get_sample_value("charkha_ranks") == 2
    assert registry.get_sample_value("charkha_communication_nodes") == 8


def test_the_iteration_is_negative_during_warm_up() -> None:
    registry = new_registry()
    metrics = RunMetrics(registry, FACTS)
    metrics.iteration_started(-1)
    assert registry.get_sample_value("charkha_iteration") == -1


def test_a_class_without_bandwidth_has_a_time_only() -> None:
    registry = new_registry()
    digest = IterationDigest([RunMetrics(registry, FACTS)])
    digest.recorded(columns(collective([0, 0], [4000, 4000], kind="barrier", size_bytes=0, algorithm="x")))
    digest.iteration_done(0, 1)
    labels = {"collective": "barrier", "group_size": "2", "size_bytes": "0", "algorithm": "x"}
    assert registry.get_sample_value("charkha_cct_seconds", labels) == pytest.approx(4e-6)
    assert registry.get_sample_value("charkha_busbw_bytes_per_second", labels) is None


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    registry = new_registry()
    RunMetrics(registry, FACTS)
    names = {sample.name for metric in registry.collect() for sample in metric.samples} | {
        metric.name for metric in registry.collect()
    }
    dashboard = json.loads((ROOT / "lab" / "telemetry" / "grafana-dashboard.json").read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"charkha_\w+", target["expr"])
    }
    assert asked
    assert asked <= names


def test_the_page_lists_every_metric_that_is_served() -> None:
    registry = new_registry()
    RunMetrics(registry, FACTS)
    page = (ROOT / "docs" / "telemetry.md").read_text()
    listed = set(re.findall(r"`(charkha_\w+)", page.split("## Prometheus")[1].split("`charkha agent")[0]))
    assert {name.removesuffix("_info").removesuffix("_total") for name in listed} == {
        metric.name.removesuffix("_info") for metric in registry.collect()
    }


def test_every_metric_is_there_once_with_the_samples_of_all_jobs() -> None:
    registries = {"a": new_registry(), "b": new_registry()}
    for number, (job, registry) in enumerate(registries.items()):
        metrics = RunMetrics(registry, RunHeader(f"run-{job}", "trace", 2 + number, 3, 6, "runs/x"))
        metrics.agent_moved("agent-0", bytes_sent=7 + number, nodes_done=1, waiting_on="")
    lines = generate_latest(labelled(registries)).decode().splitlines()
    assert {'charkha_ranks{job="a"} 2.0', 'charkha_ranks{job="b"} 3.0'} <= set(lines)
    assert 'charkha_agent_payload_bytes{agent="agent-0",job="b"} 8.0' in lines
    assert lines.count("# TYPE charkha_ranks gauge") == 1
