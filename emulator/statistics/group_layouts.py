"""Where the members of the collectives of a run were, from its manifest and samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from emulator.planner.group_layout import GroupLayout, Layouts
from emulator.statistics.table_columns import to_ints


class InstanceLayouts:
    """The layouts of the groups of a run.

    Args:
        samples: with `instance` and `rank`.
        topology: of the manifest.
    """

    def __init__(self, samples: pa.Table, topology: Mapping[str, Any]) -> None:
        hosts = topology.get("host_index") or ()
        self._layouts = Layouts(hosts, topology.get("interface_index") or [0] * len(hosts))
        self._samples = samples

    def of(self, instance: int) -> GroupLayout | None:
        """That of the group of an instance, with its members by rank; None if it is not known."""
        ranks = to_ints(self._samples["rank"])[to_ints(self._samples["instance"]) == instance]
        return self._layouts.of(np.unique(ranks).tolist())
