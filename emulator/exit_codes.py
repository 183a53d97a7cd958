"""Exit codes of the `charkha` command. Scripts and CI jobs depend on them: they do not change."""

from __future__ import annotations

DONE = 0
"""The command did what it was called for."""
FAILED = 1
"""The run failed after it had begun, an audit found a violation, `diff --gate` a difference, or Charkha has a bug."""
BAD_INPUT = 2
"""An option, a trace, a topology or a run folder cannot be used. Nothing was started."""
HOST_LACKS = 3
"""The host lacks a tool, a library, a privilege or disk space."""
REGRESSION = 4
"""`charkha compare --gate` found a regression."""
EXPECTATION_FAILED = 5
"""A run does not meet its rules (`--expect`, `charkha runs judge`): FAIL."""
TESTER_LIMITED = 6
"""The rules cannot be judged because the tester set the times: TESTER-LIMITED."""
UNDECIDED = 7
"""The rules cannot be judged because something was not measured, or nobody knows what the tester adds: UNDECIDED."""
INTERRUPTED = 130
"""Ctrl-C: what a shell reports for a command that SIGINT ended."""
STDOUT_CLOSED = 141
"""The reader of stdout went away, as `head` does: what a shell reports for a command that SIGPIPE ended."""
