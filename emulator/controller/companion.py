"""Who goes along with a run: watches the device under test, and keeps the scenario of its profile."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol

from emulator.run_folder.schema import Columns


class RunCompanion(Protocol):
    """A context manager around the run. Called on the run's thread, in this order; `counters` any number of times."""

    def __enter__(self) -> Any:
        """Before the run folder is made: whatever keeps the run from being played is said here.

        Raises:
            EmulatorError: the profile cannot be put into force, a device does not answer.
        """
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The device is as before."""
        ...

    def begin(self) -> None:
        """The first iteration starts now."""
        ...

    def counters(self) -> Columns | None:
        """What was observed since the last call, see `COUNTERS_SCHEMA`.

        Raises:
            HostError: the scenario cannot be kept: the run is over.
        """
        ...

    def end(self) -> None:
        """Playing is over, well or not: the last observation; idempotent."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """What the manifest says of the device under test beside its name."""
        ...


class NoCompanion:
    """Implements RunCompanion for a run without a device to watch."""

    def __enter__(self) -> NoCompanion:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass

    def begin(self) -> None:
        """See RunCompanion."""

    def counters(self) -> Columns | None:
        """See RunCompanion."""
        return None

    def end(self) -> None:
        """See RunCompanion."""

    def facts(self) -> Mapping[str, Any]:
        """See RunCompanion."""
        return {}
