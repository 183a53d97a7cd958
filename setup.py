"""What pyproject.toml cannot say: which modules mypyc compiles if CHARKHA_BUILD=compiled (docs/adr/0025-…).

The compiler reads the types of what these modules import, so it runs in an environment with all of requirements/ci.txt:
`CHARKHA_BUILD=compiled pip wheel --no-build-isolation --no-deps .`. Without the variable, and for an editable
installation, nothing is compiled.
"""

import os
import sys
from pathlib import Path

from setuptools import setup

VARIABLE = "CHARKHA_BUILD"
ROOMS = ("agents/nic", "agents/play", "agents/transports/roce", "emulator/roce")
MODULES = (
    "agents/reporter.py",
    "emulator/planner/collectives/all_gather_reduce_scatter.py",
    "emulator/planner/collectives/all_reduce.py",
    "emulator/planner/collectives/blocks.py",
    "emulator/planner/collectives/patterns.py",
    "emulator/planner/schedule.py",
    "emulator/version.py",
)
INTERPRETED = {
    "agents/nic/context.py": "a default of a dataclass field is a memory view",
    "agents/nic/send_problem.py": "runs once in a connection",
    "agents/nic/sockets.py": "tests and stamped sending replace its senders",
    "agents/nic/stamps.py": "has a subclass of these senders",
    "agents/transports/roce/transport.py": "runs once in a run",
    "emulator/roce/connection/memory.py": "has a Flag",
    "emulator/roce/connection/messages.py": "has structs of msgspec",
    "emulator/roce/options.py": "is read once in a run",
    "emulator/roce/wire/headers.py": "has dataclasses with class variables",
    "emulator/roce/wire/opcodes.py": "is tables of enumerations",
    "emulator/roce/wire/packet.py": "is for single packets of tests and captures",
}


def modules() -> list[str]:
    """The files to compile."""
    files = {str(file) for room in ROOMS for file in Path(room).rglob("*.py") if file.name != "__init__.py"}
    return sorted(files - set(INTERPRETED)) + list(MODULES)


def extensions() -> list:  # type: ignore[type-arg]
    """What setuptools builds: one library with all modules, and a small one for the name of each."""
    build = os.environ.get(VARIABLE, "pure")
    if build == "pure" or "editable_wheel" in sys.argv:
        return []
    if build != "compiled":
        sys.exit(f"{VARIABLE}={build}: it is pure or compiled")
    try:
        from mypyc.build import mypycify
    except ImportError:
        sys.exit(f"{VARIABLE}=compiled needs mypy: pip install -r requirements/ci.txt, and build without isolation")
    config = Path(__file__).resolve().with_name("pyproject.toml")  # of this file, not of a link to it
    return mypycify(["--config-file", str(config), *modules()], opt_level="3", debug_level="0", group_name="charkha")


setup(ext_modules=extensions())
