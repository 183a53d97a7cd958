"""The `charkha` command: until its modules are loaded, what ends it does so without a traceback."""

from __future__ import annotations

import gc
import signal
import sys

from emulator import exit_codes


def main() -> int:
    """Run the command line of this process; returns its exit code."""
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not ignored, as under nohup
    if is_ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # modules stay: to look through them again and again takes a tenth of the start
    try:
        from emulator.cli.main import main as command
    except (OSError, MemoryError) as error:  # then nothing can be loaded that could say more
        print("charkha:", str(error) or "out of memory", file=sys.stderr)
        return exit_codes.HOST_LACKS

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return command()


if __name__ == "__main__":
    sys.exit(main())
