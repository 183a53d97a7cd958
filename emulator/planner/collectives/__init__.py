"""The built-in collective algorithms, one module per family of collectives, and their building blocks.

Building blocks: `blocks` (cutting an array), `ring`, `direct`, `halving_doubling`, `trees` and `pipeline`. Next to each
algorithm, or each family, is its closed form, `…_bytes`: (bytes sent, bytes received) by one member. The registry is
emulator.planner.built_in.
"""
