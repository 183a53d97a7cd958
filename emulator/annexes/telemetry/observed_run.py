"""A run as its messages over MQTT describe it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from emulator.annexes.telemetry.payloads import LOST, TopicKind

FINAL_STATES = ("complete", "aborted", LOST)


class ObservedRun:
    """The latest facts of one run.

    Args:
        run_id: the run to observe; None: the first one that reports a state that is not final.

    Attributes:
        run_id: None until a run is found.
        latest: the payload of the last message.
    """

    def __init__(self, run_id: str | None = None) -> None:
        self.run_id = run_id
        self.latest: Mapping[str, Any] = {}
        self._facts: dict[str, Mapping[str, Any]] = {}
        self._agents: dict[str, Mapping[str, Any]] = {}

    @property
    def state(self) -> str:
        """The last state that was reported; empty before the first."""
        return str(self._facts.get(TopicKind.STATE, {}).get("state", ""))

    @property
    def is_over(self) -> bool:
        """The run has ended, or the broker lost it."""
        return self.state in FINAL_STATES

    @property
    def reason(self) -> str | None:
        """Why the run ended, if it reported a reason."""
        return self._facts.get(TopicKind.STATE, {}).get("reason")

    @property
    def waiting(self) -> list[tuple[str, str]]:
        """(agent, what it is waiting for), by agent."""
        return [(name, str(one["waiting_on"])) for name, one in sorted(self._agents.items()) if one.get("waiting_on")]

    def facts(self, kind: TopicKind) -> Mapping[str, Any]:
        """The latest payload of a kind; of STATE, all payloads together. Empty if there was none."""
        return self._facts.get(kind, {})

    def receive(self, topic: str, payload: object) -> bool:
        """Take a message.

        Args:
            topic: without the prefix: run, kind, and for an agent its name.
            payload: as received.

        Returns:
            False if the message belongs to another run or cannot be read; it changes nothing then.
        """
        run_id, _, rest = topic.partition("/")
        kind, found = rest.partition("/")[0], _parse(payload)
        if found is None or kind not in set(TopicKind) or not self._is_ours(run_id, kind, found):
            return False
        self.run_id, self.latest = run_id, found
        if kind == TopicKind.AGENT:
            self._agents[str(found.get("agent"))] = found
        elif kind == TopicKind.STATE:
            self._facts[kind] = {**self._facts.get(kind, {}), **found}
        else:
            self._facts[kind] = found
        return True

    def _is_ours(self, run_id: str, kind: str, found: Mapping[str, Any]) -> bool:
        if self.run_id is not None:
            return run_id == self.run_id
        # A broker keeps the last state of earlier runs.
        return kind == TopicKind.STATE and found.get("state") not in FINAL_STATES


def _parse(payload: object) -> dict[str, Any] | None:
    try:
        found = json.loads(payload) if isinstance(payload, bytes | str) else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
