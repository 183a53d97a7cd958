"""A service as a process of its own, for benchmarks that load it."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StartedService:
    """A service that answers.

    Attributes:
        url: with a slash at its end.
        token: of the user admin.
        log: what it writes to stderr.
    """

    process: subprocess.Popen[str]
    url: str
    token: str
    log: Path


@contextmanager
def started_service(folder: Path) -> Iterator[StartedService]:
    """A new service in a folder, until the context is left.

    Raises:
        SystemExit: it ended before it answered.
    """
    log = folder / "service.log"
    command = (sys.executable, "-P", "-m", "emulator", "serve", str(folder / "service"), "--listen", "0")
    with (
        log.open("w") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            token = process.stdout.readline().strip()
            while (found := re.search(r"serves .* at (\S+)\n", log.read_text())) is None:
                if process.poll() is not None:
                    raise SystemExit(log.read_text())
                time.sleep(0.05)
            yield StartedService(process, found[1], token, log)
        finally:
            process.terminate()
