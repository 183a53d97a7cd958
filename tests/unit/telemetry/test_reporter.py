"""What a run says of itself: every message fits the schema, in order, as often as is useful."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest

from emulator.telemetry.digest import IterationDigest
from emulator.telemetry.messages import Composer, Kind, Message, schema
from emulator.telemetry.metrics import RunMetrics, new_registry, parse_address
from emulator.telemetry.reporter import RunFacts, TelemetryReporter
from tests.support.command import ROOT
from tests.support.runs import collective, columns

FACTS = RunFacts("r1", "a trace", ranks=2, iterations=2, nodes=8, run_folder="runs/r1")
Said = tuple[str, dict[str, object]]


class Desk:
    """A reporter, its clock and what it said."""

    def __init__(self) -> None:
        self.now, self.dropped, self.messages = 0.0, 3, list[Message]()
        self.reporter = TelemetryReporter(FACTS, Composer("r1"), self, now=lambda: self.now)

    def offer(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def said(self) -> list[Said]:
        return [(one.topic.removeprefix("charkha/r1/"), json.loads(one.payload)) for one in self.messages]


def play(desk: Desk) -> None:
    reporter, digest = desk.reporter, IterationDigest([desk.reporter])
    reporter.begin()
    for iteration in (-1, 0):
        reporter.iteration_started(iteration)
        samples = columns(collective([0, 0], [4000, 4000], iteration=iteration))
        reporter.completed(2)
        digest.recorded(samples)
        desk.now += 1
        reporter.moved(5000 * (iteration + 2))
        reporter.agent_moved("agent/0", bytes_sent=5000, nodes_done=9, waiting_on="rank 1")
        reporter.iteration_done(iteration, 7000)
        digest.iteration_done(iteration, 7000)
    reporter.writing_trace()
    reporter.end("complete", None)


def test_every_message_fits_the_schema() -> None:
    desk = Desk()
    play(desk)
    kinds = {topic.split("/")[0] for topic, _ in desk.said}
    assert kinds == {str(kind) for kind in Kind}
    for topic, payload in desk.said:
        jsonschema.validate(payload, schema() | {"$ref": f"#/$defs/{topic.split('/')[0]}"})
    jsonschema.validate(json.loads(Composer("r1").will().payload), schema() | {"$ref": "#/$defs/state"})


def test_messages_are_numbered_in_order_and_states_are_kept() -> None:
    desk = Desk()
    play(desk)
    assert [payload["sequence"] for _, payload in desk.said] == list(range(1, len(desk.said) + 1))
    states = [payload["state"] for topic, payload in desk.said if topic == "state"]
    assert states == ["starting", "playing", "writing", "complete"]
    kept = {one.topic.split("/")[2] for one in desk.messages if one.is_retained}
    assert kept == {"state", "agents"}
    assert "charkha/r1/agents/agent_0" in {one.topic for one in desk.messages}


def test_an_iteration_tells_its_job_completion_time_and_its_classes() -> None:
    desk = Desk()
    play(desk)
    said = [payload for topic, payload in desk.said if topic == "completions"]
    assert [one["iteration"] for one in said] == [-1, 0]
    [row] = said[1]["classes"]  # type: ignore[misc]
    assert (row["collective"], row["size_bytes"], row["cct_p50_ns"], row["count"]) == ("all_reduce", 1000, 4000, 1)
    assert [payload["jct_ns"] for topic, payload in desk.said if topic == "iteration"] == [7000, 7000]


def test_progress_comes_once_a_second_with_a_rate() -> None:
    desk = Desk()
    desk.reporter.moved(10)
    desk.now = 0.9
    desk.reporter.moved(500)
    assert desk.said == []
    desk.now = 2.0
    desk.reporter.moved(1000)
    [(topic, payload)] = desk.said
    assert (topic, payload["bits_per_second"], payload["dropped"]) == ("progress", 4000, 3)


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


@pytest.mark.parametrize(
    ("text", "wanted"), [("9100", ("127.0.0.1", 9100)), ("0.0.0.0:1", ("0.0.0.0", 1)), ("[::1]:2", ("::1", 2))]
)
def test_metrics_are_for_this_host_unless_told_otherwise(text: str, wanted: tuple[str, int]) -> None:
    assert parse_address(text) == wanted


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
