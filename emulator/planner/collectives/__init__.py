"""The built-in collective algorithms, one module per family of collectives, and their building blocks.

Building blocks: `blocks` (cutting an array), `ring`, `direct`, `halving_doubling` and `trees`. The registry is
emulator.planner.built_in; emulator.planner.traffic.closed_forms has what all members together send.
"""
