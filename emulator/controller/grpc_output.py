"""gRPC's own words on stderr."""

from __future__ import annotations

import importlib
import traceback
from types import SimpleNamespace


def print_no_tracebacks() -> None:
    """Keep gRPC's server from printing the exceptions of its calls, which it also logs.

    A call that is cancelled while its end is on the way is one: nothing that a user could do anything about.
    """
    cygrpc = importlib.import_module("grpc._cython.cygrpc")
    if hasattr(cygrpc, "traceback"):  # private to gRPC: a version without it prints nothing in this way
        vars(cygrpc)["traceback"] = SimpleNamespace(**{**vars(traceback), "print_exc": lambda *_, **__: None})
