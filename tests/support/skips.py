"""The closing table of skipped tests: what is missing, how many tests that leaves out, and what brings it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

_REMEDY = re.compile(r"apt-get install [\w.+ -]*\w|pip install [\w.+ -]*\w|CHARKHA_\w+=1|\bneeds? root\b")
_LONGEST = 60


def skip_lines(reasons: Iterable[str]) -> Iterator[str]:
    """The table as lines; nothing without a reason.

    Args:
        reasons: of each skipped test, as it gave it: what is missing and, somewhere in it, the command that brings it.
    """
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for reason in reasons:
        remedy = _REMEDY.search(reason)
        # Reasons with a remedy in common are one row: what brings it counts, not how each test says what it lacks.
        found["" if remedy else reason, remedy[0] if remedy else ""] += 1
    rows = [
        (what or _WHAT.get(how) or how.partition(" install ")[2], f"{count:,}", how)
        for (what, how), count in sorted(found.items(), key=lambda one: (-one[1], one[0]))
    ]
    if rows:
        rows.insert(0, ("left out for want of", "tests", "what brings it"))
        widths = [min(_LONGEST, max(len(row[column]) for row in rows)) for column in (0, 1)]
        for what, count, how in rows:
            yield f"{what:{widths[0]}}  {count:>{widths[1]}}  {how}".rstrip()
        packages = sorted({one for _, _, how in rows if how.startswith("apt-get") for one in how.split()[2:]})
        if packages:
            yield f"all of them: apt-get install {' '.join(packages)}"


_WHAT = {"CHARKHA_FULL=1": "time: measurements, variants, long checks", "needs root": "root", "need root": "root"}


def skip_reason(longrepr: object) -> str:
    """What a skipped report says, without pytest's own words."""
    said: Sequence[object] = longrepr if isinstance(longrepr, tuple) else (longrepr,)
    return str(said[-1]).removeprefix("Skipped: ")
