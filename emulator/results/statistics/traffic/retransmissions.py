"""Where repeated packets of a run come from: lost on the way, lost in a receiving host, or repeated for nothing.

A packet is sent again because it was lost, because an earlier one was lost (a go-back-N receiver discards early
packets), or although it had arrived. Receivers count the last two, so what is left was lost:

    lost = retransmissions - spurious ones - early packets that were discarded

Packets that the network duplicated are in neither: receivers count those apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from emulator.results.run_folder.manifest import Manifest

_NEEDED = ("retransmits", "duplicates", "out_of_order")
REFUSED = ("dropped_header", "dropped_icrc", "dropped_payload")


def lost_packets(counters: Mapping[str, int], manifest: Manifest) -> int | None:
    """Packets that no receiver reported; None if the transport does not count, or the run did not complete.

    Args:
        counters: of all flows.
    """
    if any(name not in counters for name in _NEEDED):
        return None
    receiver, multipath = (manifest.parameters.get(f"roce.{name}") for name in ("receiver", "multipath"))
    keeps_early = (receiver is not None and receiver.value == "ooo") or (multipath is not None and multipath.value)
    discarded = 0 if keeps_early else counters["out_of_order"]
    return max(0, counters["retransmits"] - counters["duplicates"] - discarded)


def receiver_drops(manifest: Manifest) -> int | None:
    """Receptions that receiving hosts dropped because a buffer was full; None if no transport counts them."""
    facts = [host.transport for host in manifest.hosts if host.transport]
    counts = [one["dropped.queue"].value for one in facts if "dropped.queue" in one]
    return sum(count for count in counts if isinstance(count, int)) if facts else None


def unexplained(
    lost: int | None, counters: Mapping[str, int], *, device: int | None, receivers: int | None
) -> int | None:
    """Lost packets beyond what the device lost and receiving hosts dropped; None if that cannot be said.

    Args:
        lost: see `lost_packets`.
        device: frames that the device lost, as in - out or as it counted them; None if it was not monitored.
        receivers: see `receiver_drops`. The kernel counts receptions, each of one or several packets: any explains all.
    """
    if not lost:
        return lost
    if receivers:
        return 0
    if device is None:
        return None
    return max(0, lost - device - sum(counters.get(name, 0) for name in REFUSED))
