"""Interface to the monitor of the device under test: reads its counters and applies its profile during a run."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol

from emulator.run_folder.schema import Columns


class DutMonitor(Protocol):
    """A context manager around the run. Methods are called on the run's thread in this order; `counters` repeatedly."""

    def __enter__(self) -> Any:
        """Prepare the device before the run folder is created: errors that prevent the run are raised here.

        Raises:
            EmulatorError: the profile cannot be applied, or a device does not answer.
        """
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the device."""
        ...

    def begin(self) -> None:
        """The first iteration starts."""
        ...

    def counters(self) -> Columns | None:
        """Counters read since the last call; columns as in `COUNTERS_SCHEMA`.

        Raises:
            HostError: a step of the profile cannot be applied; this ends the run.
        """
        ...

    def end(self) -> None:
        """The run has ended, successfully or not: read the counters a last time; idempotent."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """What the manifest records about the device under test in addition to its name."""
        ...
