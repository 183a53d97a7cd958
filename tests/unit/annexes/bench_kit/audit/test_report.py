"""Figures of the report, and the report as JSON."""

import dataclasses

import pytest

from emulator.annexes.bench_kit.audit.report import goodput_bps, opcode_name, to_json
from tests.support.roce_capture import MTU, STEP_NS, Conversation, audit_frames, conversation


def test_goodput_counts_new_payload_once() -> None:
    talk = Conversation()
    packets = talk.packets_of_write(3 * MTU)
    for opcode, extensions, payload, psn in [*packets, *packets]:
        talk.request(opcode, *extensions, payload=payload, psn=psn)
    (flow,) = talk.audit().flows
    assert flow.payload_bytes == 3 * MTU
    assert flow.goodput_bps == pytest.approx(3 * MTU * 8 / (5 * STEP_NS * 1e-9))


def test_no_goodput_without_times() -> None:
    frames = [dataclasses.replace(one, time_ns=None) for one in conversation().captured()]
    assert audit_frames(frames).flows[0].goodput_bps is None


@pytest.mark.parametrize(
    ("times", "bps"),
    [([], None), ([5], None), ([5, 5], None), ([None, None], None), ([0, None, 1_000], 8e9), ([1_000, 0], 8e9)],
)
def test_goodput_needs_two_different_times(times: list[int | None], bps: float | None) -> None:
    assert goodput_bps(1_000, times) == bps


def test_opcodes_are_named_or_numbered() -> None:
    assert [opcode_name(one) for one in (0x06, 0x81, 0x1F, 0xC1)] == ["RC_WRITE_FIRST", "CNP", "0x1f", "0xc1"]


def test_totals_of_the_json_report_are_sums_over_its_flows() -> None:
    talk = conversation()
    talk.nak(talk.psn - 2)
    talk.cnp()
    facts = to_json(talk.audit())
    total = facts["total"]
    for name in ("packets", "data_frames", "icrc_good", "gaps", "retransmitted", "payload_bytes"):
        assert total[name] == sum(flow[name] for flow in facts["flows"])
    assert (total["acks"], total["naks"], total["cnps"]) == (3, {"sequence error": 1}, 1)
    assert total["packets"] == facts["frames"] == 14


def test_a_flow_without_responses_has_null_in_json() -> None:
    talk = Conversation()
    talk.write(MTU)
    (flow,) = to_json(talk.audit())["flows"]
    assert (flow["answered_by"], flow["answers"], flow["path_mtu"]) == (None, None, None)


def test_rules_are_counted_in_json_only_if_violated() -> None:
    assert to_json(conversation().audit())["rules_broken"] == {}
