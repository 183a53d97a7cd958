"""Charkha beside others on one machine: `python -m lab.benchmarks.peers --help`; docs/benchmarks.md explains."""
