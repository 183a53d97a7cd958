"""Matches responses to requests: a packet names its destination queue pair, but not its source queue pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from emulator.audit.flow import CapturedPacket, Flow, FlowKey
from emulator.roce.psn import Psn

_SAMPLE = 64


def pair(flows: Iterable[Flow]) -> dict[FlowKey, Flow]:
    """Match each flow of requests with the flow of their responses.

    Responses go in the opposite direction between the same addresses, and name PSNs that were sent before. Of several
    candidates the one with most such PSNs wins; ties go to the same UDP source port, then to the same queue pair.

    Returns:
        Flow of the responses by the key of the requests. Flows without a match are not in it.
    """
    by_addresses: dict[tuple[bytes, bytes], list[Flow]] = defaultdict(list)
    flows = list(flows)
    for flow in flows:
        if flow.requests:
            by_addresses[flow.key.source, flow.key.destination].append(flow)
    first_frames = {flow.key: _first_frames(flow.requests) for some in by_addresses.values() for flow in some}
    claims: list[tuple[tuple[int, bool, bool], Flow, Flow]] = []
    for answers in flows:
        for requesting in by_addresses.get((answers.key.destination, answers.key.source), ()):
            score = _score(first_frames[requesting.key], answers.responses)
            if score > 0:
                alike = (requesting.source_port == answers.source_port, requesting.key.dest_qp == answers.key.dest_qp)
                claims.append(((score, *alike), requesting, answers))
    return _settle(claims)


def _settle(claims: list[tuple[tuple[int, bool, bool], Flow, Flow]]) -> dict[FlowKey, Flow]:
    """Accept claims, the strongest first; each flow gets at most one match."""
    pairs: dict[FlowKey, Flow] = {}
    taken: set[FlowKey] = set()
    for _, requesting, answers in sorted(claims, key=lambda claim: claim[0], reverse=True):
        if requesting.key not in pairs and answers.key not in taken:
            pairs[requesting.key] = answers
            taken.add(answers.key)
    return pairs


def _first_frames(requests: list[CapturedPacket]) -> dict[Psn, int]:
    frames: dict[Psn, int] = {}
    for packet in requests:
        frames.setdefault(packet.psn, packet.frame)
    return frames


def _score(first_frames: dict[Psn, int], responses: list[CapturedPacket]) -> int:
    """How many of a sample of the responses name a PSN that was sent before; only the first of a READ does."""
    responses = [one for one in responses if one.meaning.place.starts]
    step = max(1, len(responses) // _SAMPLE)
    last = responses[-1].frame if responses else 0
    return sum(first_frames.get(one.psn, last + 1) < one.frame for one in responses[::step])
