"""Tuned constants of the data path, each with the benchmark that set it.

"peers" is lab/benchmarks/peers (its settings in parentheses), "flow" its flow alone, "ring" lab/benchmarks/ring.py.
Change a value only with that benchmark run before and after, on a quiet machine.
"""

from __future__ import annotations

from typing import Final

# Limits of the kernel.

LARGEST_CALL_BYTES: Final = 65_507
"""Of one sendmsg: the largest UDP payload over IPv4."""
MOST_SEGMENTS = 64
"""Packets that Linux cuts from one call or merges into one reception, at most (UDP_MAX_SEGMENTS)."""
LARGEST_RECEPTION_BYTES: Final = 1 << 16
"""More than any reception has."""

# Runs of full packets.

CALLS_PER_TURN: Final = 6
"""Full calls that go to a local peer before it reads: fewer cost operations, more leave the core's cache
(peers: all-reduce-large)."""
STAGED_CALLS: Final = 12
"""Full calls whose headers are written at once if every slot has the same payload (peers: flow-1024)."""
LEAST_COMPACT_BYTES: Final = 4096
COMPACT_CALLS: Final = 69
"""Path MTU from which on constant payload stands once for all packets, and full calls that there is then room for: a
message of 4 MiB (peers: flow-4096)."""
CALLS_AT_ONCE: Final = CALLS_PER_TURN + 1
"""Full calls of one flow that are received and checked together: a turn's, and one more that shows that nothing is left
(peers: all-reduce-large)."""
PREDICTED_HEADERS: Final = 1024
"""Expected headers that are made at a time (flow)."""

# Packets that travel alone.

KNOWN_GSO_LENGTHS: Final = 64
"""Lengths of single packets for which a buffer of one call, 64 KB, is kept."""
SINGLES_SHARE: Final = 8
MOST_SINGLES: Final = 15
"""An agent takes an eighth as many single packets from a socket as it has ranks before the next socket's turn, but no
more than 15: what a rank needs for them is then in the core's cache, and what it sends in turn leaves in one call.
With few ranks the others would be idle meanwhile (peers: all-reduce-many; ring)."""

FEW_PACKETS: Final = 4
"""Merged packets that are taken one by one: a look at them all with numpy costs as much (lab.benchmarks.verdicts clean,
4 KiB).
"""

# Passes over the sockets.

RECEPTIONS_PER_TURN: Final = 16
"""Receptions after which the next socket has its turn; those of one system call are all taken (ring)."""
DRAIN_BYTES: Final = 16 << 10
"""After a reception as large as this, more is likely to wait at the same socket (peers: all-reduce-large)."""
ROUNDS_PER_PASS: Final = 4
"""How often a pass looks for more before the loop's other callbacks run (ring)."""
TURNS_AT_ONCE: Final = 5
TURNS_PER_ROUND: Final = 20
"""Turns of a queue pair to a local peer that are prepared together; in all, while several queue pairs send
(peers: all-reduce-large)."""
LONGEST_LOCAL_NS: Final = 300_000
"""Where a port paces, local peers send for about this long before it has its turn: it makes up for 1 ms of lateness,
not for more (lab.benchmarks.verdicts late)."""
LONGEST_NS_UNACKNOWLEDGED: Final = 1_000_000
"""A reply waits for an idle moment, but not longer than this, nor than an eighth of the peer's timeout: the ACK that
ends a collective is part of its time. A shorter wait would merge fewer ACKs (ring)."""

# Timeouts on a busy host (lab: test_roce_loss, test_run_roce).

SWEEP_NS: Final = (1_000_000, 20_000_000)
"""Overdue answers are looked for every quarter of a timeout, within these bounds."""
NOTABLE_LATENESS_NS: Final = 1_000_000
"""A sweep that runs later than this shows that the host is busy: peers get that much more time."""
LONGEST_SUSPICION_NS: Final = 100_000_000
"""How long a busy agent waits for a moment when no socket has unread data before it checks socket by socket."""
LONGEST_DOUBT_NS = 1_000_000_000
"""How long an answer may wait in a socket that is never empty."""

# Windows (peers: all-reduce-large; the table of losses in docs/roce.md).

MOST_WINDOW_BYTES: Final = 8 << 20
LEAST_WINDOW_BYTES: Final = 1 << 20
"""Bounds of the window of a queue pair, unless one is requested. The lower one holds with more than 64 ranks: the more
a rank sends and reads at once, the less often its state has to come back into the core's cache
(`bench all_reduce -n 1024 -b 4M --algorithm recursive_doubling`)."""
LEAST_PACKETS_AFTER_LOSS: Final = 8
MOST_PACKETS_AFTER_LOSS: Final = 256
"""Bounds of a reduced window, packets. Fewer than 8, and a loss is noticed only by a timeout; a larger window helps
less than what is lost behind a gap costs."""
WINDOW_GROWTH: Final = 16
"""The window grows by one per this many packets acknowledged."""
PATIENCE_NS: Final = 1_000_000
"""A reduced window that is full opens a little after this silence: the acknowledgement may have been lost, and a NIC
would have gone on sending."""

# Transfers over several queue pairs (docs/roce.md, `--qps`).

LEAST_SHARE_BYTES: Final = 1 << 20
"""A transfer is cut so that every queue pair has a message of it, but not into smaller messages than this."""
SMALLEST_CHARGE_BYTES: Final = 256
"""What a small message counts for in a queue pair's backlog, so that few bytes are not many messages."""

# Pacing (lab: test_roce_pacing, test_labs).

PORT_LEAD_NS: Final = 5_000_000
"""At a port of its own line rate a run may go so long before its time: the port's queue spaces packets, and has
something to send while this process waits for a core."""
LONGEST_PACED_RUN_NS: Final = 5_000_000
"""A run may last this long at the port's rate: at low rates long runs cost less."""
CALM_PER_LEAD: Final = 8
"""A lead of 1 ms is earned by sending for 8 ms without a CNP. What the kernel has leaves at the line rate even if a CNP
then requests less, so a flow that has just begun must not have much there."""

# Sockets.

RECEIVE_BUFFER_BYTES: Final = 64 << 20
SEND_BUFFER_BYTES: Final = 16 << 20
"""Requested buffers: eight peers can fill their windows at once (peers: all-reduce-large)."""
LONGEST_BLOCK_MS: Final = 20
"""How long a full send buffer may hold up everything before a packet counts as lost."""
KNOWN_PORTS: Final = 64
"""Source ports of a peer, and senders of a socket, that are remembered."""

# What flows carry by time.

TIMELINE_ROWS: Final = 1 << 19
"""That all agents of a run keep together, 20 MB; more only if there are more flows."""
TIMELINE_ROW_BYTES: Final = 6
"""On disk, of a ring of 4 ranks with bins of 1 ms."""
