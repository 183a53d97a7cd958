"""The option that has the ranks of an imported trace read on the nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.cli.parser import Parser
from emulator.errors import InputError

if TYPE_CHECKING:
    from emulator.experiment.spec import Trace


def add_ray(parser: Parser) -> None:
    """Add the option."""
    parser.add_argument(
        "--ray",
        advanced=True,
        metavar="ADDRESS",
        help="import on the nodes of a Ray cluster (auto: that of this node): docs/launch.md",
    )


@contextmanager
def spread(address: str | None) -> Iterator[None]:
    """Ranks are read and written on the nodes of the cluster with this address; None: by processes of this machine.

    Raises:
        HostError: Ray is not there, or not reached.
    """
    if address is None:
        yield
        return
    from emulator.importers.workers import spread_over
    from emulator.launch.ray_tasks import RayExecutor

    with RayExecutor(address) as executor, spread_over(executor):
        yield


def spread_import(address: str | None, trace: Trace | None) -> AbstractContextManager[None]:
    """As `spread`, of a command that takes traces of Chakra too.

    Raises:
        InputError: an address is given, and the trace is none that is imported.
    """
    if address is not None:
        from emulator.importers.registry import find_importer

        if trace is None or not trace.path or find_importer(Path(trace.path)) is None:
            raise InputError("--ray is for imported traces; this is a trace of Chakra, of no known format, or none")
    return spread(address)
