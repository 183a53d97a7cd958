"""A bench between two agents that `charkha agent launch` starts, in a namespace whose kernel counts their frames."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.command import Command, started, wait_for
from tests.support.namespaces import Namespace, namespace

HOSTS = [{"name": name, "per_rank": f"127.{95 + n}.0.0/24"} for n, name in enumerate("ab")]
TOPOLOGY = {"hosts": HOSTS, "agents": {"a": "agent-0", "b": "agent-1"}}
COUNTERS = """
table inet seen {
  counter frames {
  }
  chain sent {
    type filter hook output priority 0;
    ip daddr { 127.95.0.0/24, 127.96.0.0/24 } counter name frames
  }
}
"""
LAST_FRAME_S = 2.0
"""What is promised: from the end of the command, or of the job, to the last frame of its run."""


@contextmanager
def counting_namespace() -> Iterator[Namespace]:
    """A namespace with loopback alone that counts what ranks send."""
    with namespace() as alone:
        alone.nft(COUNTERS)
        yield alone


def bench(*, iterations: int) -> list[object]:
    """The command that is played; `t.yaml` holds TOPOLOGY."""
    return [
        *("bench", "all_reduce", "-n", 2, "-b", "64K", "-e", "64K"),
        *("--topology", "t.yaml", "--iterations", iterations),
    ]


def write_topology(folder: Path) -> None:
    """Write t.yaml."""
    (folder / "t.yaml").write_text(json.dumps(TOPOLOGY))


def last_frame_s(
    alone: Namespace, words: list[object], folder: Path, end: Callable[[Command], None], *, join_s: float = 30
) -> float:
    """Seconds from `end`, which stops a long bench, to the last frame that the kernel saw."""

    def frames() -> int:
        return alone.counters("seen")["frames"]

    before, begin = frames(), time.monotonic()
    with started(*words, *bench(iterations=1_000_000), cwd=folder, prefix=alone.prefix) as command:
        wait_for(lambda: True if frames() > before + 1000 else None, join_s)
        print(f"first traffic {time.monotonic() - begin:.1f} s after the start")
        ended = time.monotonic()
        end(command)
        count, last = frames(), time.monotonic()  # a bound: the reading takes a moment
        while time.monotonic() < max(ended, last) + LAST_FRAME_S / 2 and last < ended + 2 * LAST_FRAME_S:
            if (now := frames()) != count:
                count, last = now, time.monotonic()
        print(f"last frame at most {last - ended:.2f} s after the end")
        wait_for(lambda: True if not command.left() else None)
        return last - ended
