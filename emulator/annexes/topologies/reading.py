"""Tells the topology files of other tools from their content, and reads them."""

from __future__ import annotations

from emulator.annexes.topologies.containerlab import is_containerlab, read_containerlab
from emulator.annexes.topologies.imported import ImportedTopology
from emulator.annexes.topologies.infragraph import is_infragraph, read_infragraph
from emulator.topology.document import Document


def import_topology(document: Document) -> ImportedTopology | None:
    """What another tool's file describes; None: it is no such file.

    Raises:
        TopologyError: the file is not as that tool writes it.
    """
    for recognise, read in ((is_infragraph, read_infragraph), (is_containerlab, read_containerlab)):
        if recognise(document.value):
            try:
                return read(document)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                # These formats are not validated: a value of an unexpected type shows up where it is used.
                raise document.error(f"has a value of an unexpected type ({type(error).__name__}: {error})") from error
    return None
