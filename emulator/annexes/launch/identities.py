"""Identities for one launch, from an authority that exists only while they are issued."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from emulator.control.certificates.authority import issue, make_authority
from emulator.control.certificates.roles import Role
from emulator.host.scratch import scratch_folder

_SLACK_S = 3600.0
"""Identities outlive the launch by as much: it may have to wait for nodes."""


def issue_identities(
    agents: Sequence[str], *, controller: str, addresses: Sequence[str], lasting_s: float
) -> dict[str, str]:
    """Name → content of the identity file, of the agents and the controller. Nothing of it stays on disk.

    Args:
        agents: their names.
        controller: name of the controller.
        addresses: that agents connect to.
        lasting_s: how long the launch may last.
    """
    valid = timedelta(seconds=lasting_s + _SLACK_S)
    with scratch_folder() as folder:
        make_authority(folder, name="launch")
        made = [issue(folder, controller, role=Role.CONTROLLER, addresses=addresses, valid=valid)]
        made += [issue(folder, name, role=Role.AGENT, valid=valid) for name in agents]
        return {one.name: one.path.read_text() for one in made}
