"""Flows of a run spec: traffic alongside its jobs. The key `kind` tells them apart."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta
from msgspec.structs import force_setattr

from emulator.errors import InputError
from emulator.flows.perftest.parameters import LARGEST_COUNT, PeerTest, TestVerb, make_test
from emulator.roce.constants import PATH_MTUS
from emulator.schema import Section
from emulator.units import parse_size

Count: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
Verb: TypeAlias = Literal["write", "send", "read", "write-lat", "send-lat", "read-lat"]
LARGEST_PATH_MTU = PATH_MTUS[-1]
PASSIVE_VERBS = ("write", "read", "read-lat")
"""Tests whose server only answers: it need not know when they end."""
_KEYS = {
    "size": "size_bytes", "iters": "iterations", "duration": "duration_s", "path-mtu": "path_mtu", "qps": "qps",
    "bidirectional": "bidirectional", "verb": "verb",
}  # fmt: skip
"""Option of `charkha agent peer` → key of a flow."""
_OPTION = re.compile(f"--({'|'.join(_KEYS)})")


class PerftestFlow(Section, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="perftest"):
    """A test with the perftest of a peer of the topology, alongside the job: from its first iteration to its last.

    Attributes:
        host: of the topology that plays it, or `host:interface`. Several: a flow each, N to 1.
        peer: host of the topology that runs perftest.
        role: of this end. The client connects; it sends, or reads.
        verb: as `charkha agent peer --verb`.
        size_bytes: of a message; None: 64 KiB, latency tests 2.
        iterations: messages per queue pair; None: as many as the job gives time for, or as `duration_s` does.
        duration_s: how long to send, in place of iterations.
        qps: queue pairs.
        path_mtu: largest payload of a packet, bytes; the smaller one of both ends counts. None: the largest that fits
            the MTU of the links.
        bidirectional: both ends send at once.
        rdma_cm: connect the queue pairs with rdma_cm, as perftest does with -R.
        port: of the exchange, at the server; None: the peer's in the topology. Several flows take consecutive ones.
    """

    host: str | tuple[str, ...]
    peer: str
    role: Literal["client", "server"] = "client"
    verb: Verb = "write"
    size_bytes: str | int | None = None
    iterations: Count | None = None
    duration_s: Seconds | None = None
    qps: Count = 1
    path_mtu: int | None = None
    bidirectional: bool = False
    rdma_cm: bool = False
    port: Annotated[int, Meta(ge=1, le=65_535)] | None = None

    def __post_init__(self) -> None:
        if self.size_bytes is not None:
            force_setattr(self, "size_bytes", parse_size(str(self.size_bytes)))
        if not self.hosts:
            raise ValueError("host: list at least one")
        has_end = self.iterations is not None or self.duration_s is not None
        if not has_end and self.role == "client" and (self.bidirectional or self.verb not in PASSIVE_VERBS):
            both = "bidirectional" if self.bidirectional else f"verb {self.verb}"
            raise ValueError(f"{both}: give iterations or duration_s, so that the peer knows when to end")
        if not has_end and self.role == "server":
            raise ValueError("role server: the peer decides when to end: give iterations or duration_s")
        try:
            _ = self.test
        except InputError as error:
            raise ValueError(_OPTION.sub(lambda found: _KEYS[found[1]], str(error))) from None

    @property
    def kind(self) -> str:
        """What the key `kind` says."""
        return "perftest"

    @property
    def hosts(self) -> tuple[str, ...]:
        """One for each flow."""
        return (self.host,) if isinstance(self.host, str) else self.host

    @property
    def test(self) -> PeerTest:
        """What is run."""
        return make_test(
            TestVerb(self.verb),
            size_bytes=None if self.size_bytes is None else int(self.size_bytes),
            iterations=self.iterations,
            duration_s=self.duration_s,
            queue_pairs=self.qps,
            path_mtu=self.path_mtu or LARGEST_PATH_MTU,
            is_bidirectional=self.bidirectional,
            is_open_ended=True,
        )


Flow: TypeAlias = PerftestFlow
"""Kinds of flows; the key `kind` tells them apart."""
