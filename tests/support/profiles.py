"""Profiles and labs in memory for tests."""

from pathlib import Path

from emulator.device.lab.design import make_design
from emulator.device.lab.model import Design
from emulator.device.profile.changes import Change, plan_changes
from emulator.device.profile.load import load_profile
from emulator.device.profile.profile import Profile, Schedule
from emulator.topology.load import load_topology

TWO_HOSTS = """
name: two
hosts:
  - {name: h0, per_rank: 198.18.1.0/24}
  - {name: h1, per_rank: 198.18.2.0/24}
switches:
  - {name: sw0, kind: KIND}
links:
  - {endpoints: ["h0:eth0", "sw0:p0"]RATE, mtu: 1500}
  - {endpoints: ["h1:eth0", "sw0:p1"]RATE, mtu: 1500}
"""


def profile_of(folder: Path, text: str) -> Profile:
    """A profile with these rules, from a file of its own."""
    path = folder / "profile.yaml"
    path.write_text(f"rules:\n{text}")
    return load_profile(path)


def two_hosts(folder: Path, *, kind: str = "bridge", rate: str | None = "100Mbit") -> Design:
    """The lab of two hosts at one switch."""
    path = folder / "two.yaml"
    path.write_text(TWO_HOSTS.replace("KIND", kind).replace("RATE", f", rate: {rate}" if rate else ""))
    return make_design(load_topology(path, ranks=0), "test")


def changes(folder: Path, *rules: str, kind: str = "bridge", rate: str | None = "100Mbit") -> list[Change]:
    """The changes of these rules at the switch of the lab of two hosts."""
    profile = profile_of(folder, "".join(f"  - {rule}\n" for rule in rules))
    return plan_changes(Schedule(profile), two_hosts(folder, kind=kind, rate=rate), ["sw0"], frame_bytes=1250)


def commands(change: Change, which: str) -> list[str]:
    """The lines of a change's commands, each with the beginning of its command.

    Args:
        change: of a rule.
        which: start, stop or check.
    """
    batches = getattr(change, which)
    return [f"{' '.join(batch.command[:3])}: {line}" for batch in batches for line in batch.lines]
