"""`python -m emulator` is the `charkha` command."""

from __future__ import annotations

import sys

from emulator.start import main

if __name__ == "__main__":
    sys.exit(main())
