"""Counters of the flows of a run, summed, and what they say of lost packets.

A packet is sent again because it was lost, because an earlier one was lost (a go-back-N receiver discards early
packets), or although it had arrived. Receivers count the last two, so what is left was lost:

    lost = retransmissions - spurious ones - early packets that were discarded

Packets that the network duplicated are in neither: receivers count those apart.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from emulator.control.observations import EVENTS, Medium
from emulator.results.run_folder.manifest import Manifest
from emulator.results.statistics.samples.measured_rows import to_ints

SUMMED = ("packets", *EVENTS)
MAXIMA = ("largest_displacement",)


def told_apart(flows: pa.Table) -> pa.Table:
    """The flows, with duplicates that nobody sent among the copies: more came again than were sent again.

    Receivers tell copies of the network from resends. Runs of earlier versions, and transports whose receivers cannot,
    have both as duplicates; then only this remainder is known. So it is where a sender timed out: a receiver that read
    late cannot know of the silence that made it, and takes what it sent again for copies.
    """
    again, sent = to_ints(flows["duplicates"], null=0), to_ints(flows["retransmits"], null=0)
    copied, timeouts = to_ints(flows["copies"], null=0), to_ints(flows["timeouts"], null=0)
    is_sent_known = ~flows["retransmits"].is_null().to_numpy(zero_copy_only=False)
    remainder = np.where(is_sent_known, np.maximum(again - sent, 0), 0)
    proven = np.maximum(copied + again - sent, 0)
    remainder -= np.where(is_sent_known & (timeouts > 0), np.maximum(copied - proven, 0), 0)
    if not remainder.any():
        return flows
    is_known = ~flows["copies"].is_null().to_numpy(zero_copy_only=False) | (remainder > 0)
    copies = pa.array(copied + remainder, pa.int64(), mask=~is_known)
    is_counted = ~flows["duplicates"].is_null().to_numpy(zero_copy_only=False)
    resends = pa.array(again - remainder, pa.int64(), mask=~is_counted)
    for name, values in (("copies", copies), ("duplicates", resends)):
        flows = flows.set_column(flows.schema.get_field_index(name), name, values)
    return flows


def sum_flow_counters(flows: pa.Table) -> dict[str, int]:
    """Counter → its sum over all flows, or its maximum if a sum has no meaning; unknown counters are absent."""
    flows = told_apart(flows)
    return {name: _total(flows, name) for name in (*SUMMED, *MAXIMA) if flows.num_rows > flows[name].null_count}


def wire_flows(flows: pa.Table) -> pa.Table:
    """The flows that went over the network; runs of earlier versions have no others."""
    return flows.filter(np.array(media(flows)) == Medium.WIRE)


def domain_share(flows: pa.Table) -> float:
    """The part of all payload that went through scale-up domains; 0 without payload."""
    sizes = to_ints(flows["bytes"], null=0)
    return float(sizes[np.array(media(flows)) == Medium.DOMAIN].sum() / max(int(sizes.sum()), 1))


def media(flows: pa.Table) -> list[str]:
    """Per flow, what it went over: see Medium."""
    found: list[str] = pc.fill_null(flows["medium"].cast(pa.string()), Medium.WIRE).to_pylist()
    return found


def _total(flows: pa.Table, name: str) -> int:
    values = to_ints(flows[name], null=0)
    return int(values.max() if name in MAXIMA else values.sum())


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
