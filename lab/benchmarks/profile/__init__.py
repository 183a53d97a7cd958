"""Where the time of an iteration, and of a message, goes: `python -m lab.benchmarks.profile`."""
