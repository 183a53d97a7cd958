"""Every frame that a device lost is in one of its counters: `python -m tests.lab.accounted_frames`.

Two hosts at a bridge, at Open vSwitch and at a router in turns, clean and with a profile that drops. In each run,
frames in - frames out = drops of the profile + drops in queues + drops elsewhere that the device names, to the frame.
What no counter shows is printed as the rest, and wrong.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from emulator.results.statistics.summary import summarise
from emulator.results.statistics.traffic.dut_counters import DROPS
from tests.lab.trials import Play, Trial, collective, command, star_lab

KINDS = ("bridge", "ovs", "router")


@contextmanager
def opened() -> Iterator[Play]:
    """A lab of each kind for all trials."""
    with ExitStack() as stack:
        labs = [stack.enter_context(star_lab(2, rate="1Gbit", kind=kind)) for kind in KINDS]

        def play(number: int) -> Trial:
            kind, lab = KINDS[number % len(KINDS)], labs[number % len(KINDS)]
            profile = ("--profile", "fw-b") if number // len(KINDS) % 2 else ()
            sweep = ("-n", 2, "-b", "2M", "-e", "2M", "--iterations", 3, *profile)
            (frames,) = summarise(lab.run(collective(number), *sweep, out="run")).totals.device_frames
            shutil.rmtree(lab.folder / "run")
            drops = ", ".join(f"{count:,} {DROPS[name]}" for name, count in frames.dropped.items()) or "none"
            about = f"{kind}: {frames.frames_in:,} in - {frames.frames_out:,} out = {frames.lost:,}; counted: {drops}"
            return Trial("rest" if frames.unexplained else "to the frame", bool(frames.unexplained), about)

        yield play


if __name__ == "__main__":
    sys.exit(command(__doc__, count=30, most_wrong=0, opened=opened))
