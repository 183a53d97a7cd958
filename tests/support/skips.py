"""What a test needs of the host, and the closing table of skipped tests: what is missing, and what brings it."""

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import pytest

_REMEDY = re.compile(
    r"apt-get install [\w.+ -]*\w|pip install [\w.+ -]*\w|CHARKHA_\w+=1|python -m [\w.]*\w|\bneeds? root\b"
)
_LONGEST = 70
_PACKAGES = {
    **{"chromium": "chromium", "chromedriver": "chromium-driver", "ethtool": "ethtool", "ip": "iproute2"},
    **{"mosquitto": "mosquitto", "nft": "nftables", "ovs-vswitchd": "openvswitch-switch", "sshd": "openssh-server"},
    **{"qemu-system-x86_64": "qemu-system-x86", "ss": "iproute2", "tcpdump": "tcpdump", "tshark": "tshark"},
    "vtysh": "frr",
    **dict.fromkeys(("slurmctld", "slurmd", "sbatch", "srun", "scontrol"), "slurm-wlm"),
}
"""Commands that tests need → the Debian package that has them."""


def missing(*tools: str) -> str | None:
    """What is not installed of these commands, and what brings it; None: all are there."""
    folders = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # Debian's other users have not the latter two
    packages = sorted({_PACKAGES[one] for one in tools if shutil.which(one, path=folders) is None})
    return f"not installed: apt-get install {' '.join(packages)}" if packages else None


def need(*tools: str) -> None:
    """Skips the calling test where one of these commands is not installed."""
    if (reason := missing(*tools)) is not None:
        pytest.skip(reason)


def skip_lines(reasons: Iterable[str]) -> Iterator[str]:
    """The table as lines; nothing without a reason.

    Args:
        reasons: of each skipped test, as it gave it: what is missing and, somewhere in it, the command that brings it.
    """
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for reason in reasons:
        remedy = _REMEDY.search(reason)
        # Reasons with a remedy in common are one row: what brings it counts, not how each test says what it lacks.
        found["" if remedy else reason, remedy[0].replace("need root", "needs root") if remedy else ""] += 1
    rows = [
        (what or _WHAT.get(how) or how.partition(" install ")[2], f"{count:,}", how)
        for (what, how), count in sorted(found.items(), key=lambda one: (-one[1], one[0]))
    ]
    if rows:
        rows.insert(0, ("left out for want of", "tests", "what brings it"))
        widths = [min(_LONGEST, max(len(row[column]) for row in rows)) for column in (0, 1)]
        for what, count, how in rows:
            short = what if len(what) <= _LONGEST else f"{what[: _LONGEST - 1]}…"
            yield f"{short:{widths[0]}}  {count:>{widths[1]}}  {how}".rstrip()
        packages = sorted({one for _, _, how in rows if how.startswith("apt-get") for one in how.split()[2:]})
        if packages:
            yield f"all of them: apt-get install {' '.join(packages)}"


_WHAT = {
    "CHARKHA_FULL=1": "time: measurements, variants, long checks",
    "python -m tests.guest.image": "an emulated machine with rdma_rxe",
    "needs root": "root",
}


def skip_reason(longrepr: object) -> str:
    """What a skipped report says, without pytest's own words."""
    said: Sequence[object] = longrepr if isinstance(longrepr, tuple) else (longrepr,)
    return str(said[-1]).removeprefix("Skipped: ")
