"""Where the `charkha` command begins: until its modules are loaded, an interrupt ends it without a traceback."""

from __future__ import annotations

import signal


def main() -> int:
    """Run the command line of this process; returns its exit code."""
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not ignored, as under nohup
    if is_ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from emulator.cli.main import main as command

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return command()
