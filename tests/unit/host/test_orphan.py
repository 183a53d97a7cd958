"""A process does not outlive the one that started it, even if that was killed."""

from __future__ import annotations

import subprocess
import sys

_CHILD = """
import signal
from emulator.host.orphan import die_with_parent

die_with_parent()
signal.alarm(20)
print("ready", flush=True)
signal.pause()
"""
_PARENT = f"""
import os, signal, subprocess, sys

child = subprocess.Popen([sys.executable, "-c", {_CHILD!r}], stdout=subprocess.PIPE)
child.stdout.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_when_its_parent_is_killed() -> None:
    # The child holds stderr too: reading to its end is waiting for both.
    ran = subprocess.run([sys.executable, "-c", _PARENT], stderr=subprocess.PIPE, timeout=10, check=False)
    assert (ran.returncode, ran.stderr) == (-9, b"")
