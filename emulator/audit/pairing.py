"""Which responses answer which requests: a packet names only the queue pair it goes to, never the one it comes from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from emulator.audit.sighting import Flow, FlowKey, Sighting
from emulator.roce.psn import Psn

_SAMPLE = 64


def pair(flows: Iterable[Flow]) -> dict[FlowKey, Flow]:
    """For flows with requests, the flow that carries the responses to them.

    A flow of responses belongs to the requests, between the same addresses the other way round, whose PSNs it names
    after they were sent. Ties go to the same UDP source port (queue pairs often share it), then the same number.

    Returns:
        by the requests' key, the flow of the responses. Flows that nothing speaks for stay alone.
    """
    by_addresses: dict[tuple[bytes, bytes], list[Flow]] = defaultdict(list)
    flows = list(flows)
    for flow in flows:
        if flow.requests:
            by_addresses[flow.key.source, flow.key.destination].append(flow)
    first_frames = {flow.key: _first_frames(flow.requests) for some in by_addresses.values() for flow in some}
    claims: list[tuple[tuple[int, bool, bool], Flow, Flow]] = []
    for answers in flows:
        for asked in by_addresses.get((answers.key.destination, answers.key.source), ()):
            score = _score(first_frames[asked.key], answers.responses)
            if score > 0:
                alike = (asked.source_port == answers.source_port, asked.key.dest_qp == answers.key.dest_qp)
                claims.append(((score, *alike), asked, answers))
    return _settle(claims)


def _settle(claims: list[tuple[tuple[int, bool, bool], Flow, Flow]]) -> dict[FlowKey, Flow]:
    """The strongest claim first; each flow answers, and is answered by, one other."""
    pairs: dict[FlowKey, Flow] = {}
    taken: set[FlowKey] = set()
    for _, asked, answers in sorted(claims, key=lambda claim: claim[0], reverse=True):
        if asked.key not in pairs and answers.key not in taken:
            pairs[asked.key] = answers
            taken.add(answers.key)
    return pairs


def _first_frames(requests: list[Sighting]) -> dict[Psn, int]:
    frames: dict[Psn, int] = {}
    for sighting in requests:
        frames.setdefault(sighting.psn, sighting.frame)
    return frames


def _score(first_frames: dict[Psn, int], responses: list[Sighting]) -> int:
    """How many of a sample of the responses name a PSN that had been sent."""
    step = max(1, len(responses) // _SAMPLE)
    last = responses[-1].frame if responses else 0
    return sum(first_frames.get(one.psn, last + 1) < one.frame for one in responses[::step])
