"""Control messages that are wrong are the peer's fault; those that are right keep their types."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from emulator._pb import control_pb2 as pb
from emulator.control import conversation as control
from emulator.control.flows import MOST_GAPS, FlowGap
from emulator.control.observations import Completions
from emulator.control.wire.codec import decode_agent, decode_controller, encode_agent, encode_controller
from emulator.errors import RemoteProtocolError
from emulator.planner.rank_program import Chunk, PlannedCommunication, PlaySettings
from emulator.trace.meaning.model import CommKind, Resource


def chunk_message(**changes: Any) -> pb.ControllerMessage:
    """Two nodes, the second a collective that depends on the first, at positions 5 and 6."""
    columns: dict[str, Any] = {
        "rank": 1,
        "first_position": 5,
        "node_id": [10, 11],
        "resource": [Resource.DEVICE, Resource.NETWORK],
        "duration_ns": [7, 0],
        "dependencies": [0, 1],
        "distance": [1],
        "communications": collective(6, CommKind.BARRIER),
    }
    return pb.ControllerMessage(chunk=pb.Chunk(**columns | changes))


def collective(position: int, kind: int = 0) -> dict[int, pb.PlannedCommunication]:
    return {position: pb.PlannedCommunication(kind=kind, peer=-1, root=-1)}


def completion_message(**changes: Any) -> pb.AgentMessage:
    """One completed node."""
    columns: dict[str, Any] = {
        "iteration": -1,
        "rank": [0],
        "node_id": [2**64 - 1],
        "post_ns": [1],
        "done_ns": [2],
        "arrival_ns": [0],
        "bytes_sent": [3],
        "bytes_received": [0],
        "early": [True],
        "read_delay_ns": [-1],
        "core_wait_ns": [7],
    }
    return pb.AgentMessage(completions=pb.Completions(**columns | changes))


def test_a_chunk_as_it_should_be() -> None:
    chunk = decode_controller(chunk_message().SerializeToString()).value
    assert isinstance(chunk, Chunk)
    assert chunk.communications[6] == PlannedCommunication(CommKind.BARRIER, 0, 0, 0, peer=-1, root=-1, algorithm=0)
    assert (chunk.distance.tolist(), chunk.duration_ns.dtype) == ([1], np.uint64)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"node_id": [10]}, "columns of unequal length"),
        ({"resource": [2, 3, 2]}, "columns of unequal length"),
        ({"duration_ns": []}, "columns of unequal length"),
        ({"dependencies": [1]}, "columns of unequal length"),
        ({"dependencies": [1, 1]}, "dependencies do not add up"),
        ({"distance": []}, "dependencies do not add up"),
        ({"communications": {}}, "communications that are not those of its nodes"),
        ({"communications": collective(5)}, "communications that are not those of its nodes"),
        ({"communications": collective(6) | collective(7)}, "communications that are not those of its nodes"),
        ({"resource": [3, 3]}, "communications that are not those of its nodes"),
        ({"communications": collective(6, 77)}, "77 is not a valid CommKind"),
    ],
)
def test_malformed_chunks_are_the_peers_fault(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"the peer sent a malformed chunk message: {problem}"):
        decode_controller(chunk_message(**changes).SerializeToString())


def test_completions_as_they_should_be() -> None:
    done = decode_agent(completion_message().SerializeToString()).value
    assert isinstance(done, Completions)
    assert (done.iteration, done.node_id.tolist(), done.early.tolist()) == (-1, [2**64 - 1], [True])


@pytest.mark.parametrize("column", ["rank", "node_id", "post_ns", "done_ns", "arrival_ns", "bytes_sent", "early"])
def test_completions_with_a_short_column_are_the_peers_fault(column: str) -> None:
    with pytest.raises(RemoteProtocolError, match="malformed completions message: columns of unequal length"):
        decode_agent(completion_message(**{column: []}).SerializeToString())


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"step": []}, "columns of unequal length"),
        ({"arrival_ns": [1, 2]}, "columns of unequal length"),
        ({"size_bytes": [2**63]}, "numbers that no run reaches"),
        ({"instance": 2**63}, "numbers that no run reaches"),
    ],
)
def test_malformed_steps_are_the_peers_fault(changes: dict[str, Any], problem: str) -> None:
    one = {"receiver": [1], "send_lane": [0], "step": [0], "size_bytes": [9], "start_ns": [1], "post_ns": [1]}
    one |= {"acknowledged_ns": [2], "sender": [1], "receive_lane": [0], "arrival_ns": [3]}
    right = pb.AgentMessage(step_records=pb.StepRecords(blocks=[pb.RankSteps(**one)]))
    assert decode_agent(right.SerializeToString()).value.blocks[0].arrival_ns == (3,)
    wrong = pb.AgentMessage(step_records=pb.StepRecords(blocks=[pb.RankSteps(**one | changes)]))
    with pytest.raises(RemoteProtocolError, match=f"malformed step_records message: {problem}"):
        decode_agent(wrong.SerializeToString())


@pytest.mark.parametrize("decode", [decode_agent, decode_controller])
@pytest.mark.parametrize(
    ("data", "problem"),
    [(b"", "unknown to this version"), (b"\xfa\x01\x00", "unknown to this version"), (b"\x0a\x7f", "damaged")],
    ids=["empty", "unknown", "cut short"],
)
def test_a_message_that_cannot_be_understood_is_the_peers_fault(
    decode: Callable[[bytes], Any], data: bytes, problem: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=problem):
        decode(data)


def test_what_comes_out_is_plain_values() -> None:
    hello = control.Hello(1, 1, "a", 5, "h", "0.1", 9, b"n", facts={"kernel": "6"})
    facts = decode_agent(encode_agent(hello)).value.facts
    assert type(facts) is dict
    settings = PlaySettings(credits=True, instances=3, algorithms=["ring"], groups=[(0, 1), ()])
    job = control.JobSetup("run", [control.RankPlace(0, "127.0.0.1", 9, 8)], "zmq", 1 << 20, 7, settings)
    decoded = decode_controller(encode_controller(control.Setup({3: job}))).value.jobs[3]
    assert decoded.settings == PlaySettings(credits=True, instances=3, algorithms=("ring",), groups=((0, 1), ()))
    assert decoded.ranks == (control.RankPlace(0, "127.0.0.1", 9, 8),)


@pytest.mark.parametrize("interval_ns", [0, 10**9 + 1, 1 << 63])
def test_reports_come_now_and_then(interval_ns: int) -> None:
    with pytest.raises(RemoteProtocolError, match="reports more than a second apart, or none"):
        decode_controller(encode_controller(control.Setup({}, report_interval_ns=interval_ns)))


@pytest.mark.parametrize(
    ("transport", "options", "problem"),
    [
        ("roce", '{"qps": 65}', "--qps 65: from 1 to 64"),
        ("roce", '{"qps": "4"}', "expected int, got text"),
        ("verbs", "[", "is not JSON"),
        ("tcp", "{}", "there is no transport 'tcp'"),
    ],
)
def test_options_that_a_transport_cannot_have_are_the_peers_fault(transport: str, options: str, problem: str) -> None:
    setup = pb.Setup(jobs={0: pb.JobSetup(transport=transport, options=options)}, report_interval_ns=1)
    with pytest.raises(RemoteProtocolError, match=f"malformed setup message: .*{problem}"):
        decode_controller(pb.ControllerMessage(setup=setup).SerializeToString())


@pytest.mark.parametrize("column", ["bytes_sent", "bytes_received"])
def test_byte_counts_beyond_what_a_rank_reaches_are_refused(column: str) -> None:
    assert decode_agent(completion_message(**{column: [1]}).SerializeToString())
    with pytest.raises(RemoteProtocolError, match="malformed completions"):
        decode_agent(completion_message(**{column: [1 << 63]}).SerializeToString())


@pytest.mark.parametrize(("nodes", "resident"), [(0, True), (8, True), (9, False)])
def test_a_program_that_fits_its_window_is_resident(nodes: int, resident: bool) -> None:
    assert control.RankPlace(0, "127.0.0.1", nodes, 8).is_resident is resident
    assert control.RankPlace(0, "127.0.0.1", nodes, 8, storage=True).is_resident


def flow_report(*figures: dict[str, Any]) -> pb.AgentMessage:
    usual = {"direction": "sent", "observer": "charkha"}
    return pb.AgentMessage(flow_report=pb.FlowReport(figures=[pb.FlowFigures(**usual | one) for one in figures]))


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (completion_message(post_ns=[-(2**63)]), r"completions message: numbers that no run reaches \(post_ns\)"),
        (completion_message(done_ns=[2**63 - 1]), r"completions message: numbers that no run reaches \(done_ns\)"),
        (pb.AgentMessage(farewell=pb.Farewell(steal_fraction=float("nan"))), "farewell message: steal_fraction is not"),
        (pb.AgentMessage(farewell=pb.Farewell(core_wait_fraction=float("inf"))), "core_wait_fraction is not a finite"),
        (pb.AgentMessage(farewell=pb.Farewell(steal_fraction=-0.5)), "-0.5 is not a share from 0 to 1"),
        (pb.AgentMessage(farewell=pb.Farewell(core_wait_fraction=1.5)), "1.5 is not a share from 0 to 1"),
        (flow_report({"bytes_per_s": -1.0}), "malformed flow_report message: -1 is negative"),
        (flow_report({"latency_p99_ns": 1e300}), r"numbers that no run reaches \(latency_p99_ns\)"),
        (flow_report({"duration_ns": -1}), "malformed flow_report message: -1 is negative"),
        (flow_report({"direction": "up"}), "'up' is not a valid FlowDirection"),
        (flow_report({"observer": "me"}), "'me' is not a valid FlowObserver"),
        (flow_report({}, {}), "malformed flow_report message: a direction of a flow twice"),
        (flow_report({"gaps": [pb.FlowGap(start_ns=2, end_ns=1)]}), "or one that ends before it begins"),
        (flow_report({"gaps": [pb.FlowGap()] * (MOST_GAPS + 2)}), "more gaps of a flow than are kept"),
        (flow_report({"gaps": [pb.FlowGap(lost=1 << 60)]}), r"numbers that no run reaches \(lost\)"),
    ],
)
def test_numbers_that_cannot_be_reckoned_with_are_the_peers_fault(message: Any, problem: str) -> None:
    with pytest.raises(RemoteProtocolError, match=problem):
        decode_agent(message.SerializeToString())


def test_as_many_gaps_of_a_flow_as_are_kept_and_an_open_one_are_taken() -> None:
    message = flow_report({"gaps": [pb.FlowGap(start_ns=1, end_ns=1, lost=0)] * MOST_GAPS + [pb.FlowGap(end_ns=5)]})
    [figures] = decode_agent(message.SerializeToString()).value.figures
    assert figures.gaps == (*[FlowGap(1, 1, 0)] * MOST_GAPS, FlowGap(0, 5))
