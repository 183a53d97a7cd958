"""The built-in collective algorithms, a module per family, and the shapes they are made of.

`spans` cuts arrays into blocks, `ring`, `doubling`, `trees` and `pipeline` are the building blocks; the other modules
are the collectives. Beside each algorithm stands its closed form, `<name>_bytes`: (bytes sent, bytes received) by the
member that asks. The registry is emulator.planner.algorithms.
"""
