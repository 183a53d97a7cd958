"""Messages of a run: they fit the schema, are in order, and come as often as is useful."""

import json

import jsonschema

from emulator.annexes.telemetry.messages import BrokerMessage, Composer, TopicKind, schema
from emulator.annexes.telemetry.publishing import IterationDigest
from emulator.annexes.telemetry.reporter import TelemetryReporter
from emulator.results.run_folder.observer import (
    AgentMoved,
    IterationEnded,
    IterationStarted,
    Moved,
    Recorded,
    RunHeader,
    WritingTrace,
)
from tests.support.runs import collective, columns

FACTS = RunHeader("r1", "a trace", ranks=2, iterations=2, nodes=8, run_folder="runs/r1")
Said = tuple[str, dict[str, object]]


class Desk:
    """A reporter, its clock and what it said."""

    def __init__(self) -> None:
        self.now, self.dropped, self.messages = 0.0, 3, list[BrokerMessage]()
        self.reporter = TelemetryReporter(FACTS, Composer("r1"), self, now=lambda: self.now)

    def offer(self, message: BrokerMessage) -> None:
        self.messages.append(message)

    @property
    def said(self) -> list[Said]:
        return [(one.topic.removeprefix("charkha/r1/"), json.loads(one.payload)) for one in self.messages]


def played() -> Desk:
    """A warm-up and an iteration."""
    desk = Desk()
    reporter, digest = desk.reporter, IterationDigest([desk.reporter])
    reporter.begin()
    for iteration in (-1, 0):
        reporter.tell(IterationStarted(iteration))
        samples = columns(collective([0, 0], [4000, 4000], iteration=iteration))
        reporter.tell(Recorded({"rank": range(2)}))
        digest.tell(Recorded(samples))
        desk.now += 1
        reporter.tell(Moved(5000 * (iteration + 2)))
        reporter.tell(AgentMoved("agent/0", bytes_sent=5000, nodes_done=9, waiting_on="rank 1"))
        reporter.tell(IterationEnded(iteration, 7000))
        digest.tell(IterationEnded(iteration, 7000))
    reporter.tell(WritingTrace())
    reporter.end("complete", None)
    return desk


def test_every_message_fits_the_schema() -> None:
    desk = played()
    kinds = {topic.split("/")[0] for topic, _ in desk.said}
    assert kinds == {str(kind) for kind in TopicKind}
    for topic, payload in desk.said:
        jsonschema.validate(payload, schema() | {"$ref": f"#/$defs/{topic.split('/')[0]}"})


def test_messages_are_numbered_in_order_and_states_are_kept() -> None:
    desk = played()
    assert [payload["sequence"] for _, payload in desk.said] == list(range(1, len(desk.said) + 1))
    states = [payload["state"] for topic, payload in desk.said if topic == "state"]
    assert states == ["starting", "playing", "writing", "complete"]
    kept = {one.topic.split("/")[2] for one in desk.messages if one.is_retained}
    assert kept == {"state", "agents"}
    assert "charkha/r1/agents/agent_0" in {one.topic for one in desk.messages}


def test_an_iteration_tells_its_job_completion_time_and_its_classes() -> None:
    desk = played()
    said = [payload for topic, payload in desk.said if topic == "completions"]
    assert [one["iteration"] for one in said] == [-1, 0]
    [row] = said[1]["classes"]  # type: ignore[misc]
    assert (row["collective"], row["size_bytes"], row["cct_p50_ns"], row["count"]) == ("all_reduce", 1000, 4000, 1)
    assert [payload["jct_ns"] for topic, payload in desk.said if topic == "iteration"] == [7000, 7000]


def test_progress_comes_once_a_second_with_a_rate() -> None:
    desk = Desk()
    desk.reporter.tell(Moved(10))
    desk.now = 0.9
    desk.reporter.tell(Moved(500))
    assert desk.said == []
    desk.now = 2.0
    desk.reporter.tell(Moved(1000))
    [(topic, payload)] = desk.said
    assert (topic, payload["bits_per_second"], payload["dropped"]) == ("progress", 4000, 3)


def test_a_run_that_fails_reports_why_and_that_its_agents_are_gone() -> None:
    desk = Desk()
    desk.reporter.begin()
    desk.reporter.tell(AgentMoved("a0", bytes_sent=1, nodes_done=1, waiting_on=""))
    desk.reporter.end("aborted", "agent a0: connection lost")
    *_, (agent, gone), (state, last) = desk.said
    assert (agent, gone["agent"], gone["state"]) == ("agents/a0", "a0", "gone")
    assert (state, last["state"], last["reason"]) == ("state", "aborted", "agent a0: connection lost")


def test_the_first_message_has_what_is_known_before_the_run() -> None:
    desk = Desk()
    desk.reporter.begin()
    [(topic, payload)] = desk.said
    assert topic == "state"
    del payload["time"]
    assert payload == {
        "schema": 1,
        "run_id": "r1",
        "sequence": 1,
        "state": "starting",
        "trace": "a trace",
        "ranks": 2,
        "iterations": 2,
        "nodes": 8,
        "run_folder": "runs/r1",
        "dropped": 3,
    }


def test_an_agent_reports_at_most_once_a_second() -> None:
    desk = Desk()
    for now, done in ((0.0, 1), (0.9, 2), (1.0, 3)):
        desk.now = now
        desk.reporter.tell(AgentMoved("a0", bytes_sent=0, nodes_done=done, waiting_on="rank 1"))
    assert [payload["nodes_done"] for _, payload in desk.said] == [1, 3]
