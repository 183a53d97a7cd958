"""What a switch streams over gNMI: the depth of its queues, and the frames that its ports discarded (OpenConfig).

The time of a value is that of the reading in which it is seen here, because a switch has a clock of its own.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from emulator.device.counters.counters import CounterReading
from emulator.errors import HostError
from emulator.host.resources import lower_priority
from emulator.units import NS_PER_S

DEPTH, DISCARDED = "queue_backlog_bytes", "tx_dropped"
_PATHS = (
    "/qos/interfaces/interface/output/queues/queue/state/avg-queue-len",
    "/interfaces/interface/state/counters/out-discards",
)
_COUNTERS = {"avg-queue-len": DEPTH, "out-discards": DISCARDED}
"""Leaf in openconfig-qos and openconfig-interfaces → name in the run folder."""
_TIMEOUT_S = 5
_SILENT_PERIODS = 10
MOST_VALUES = 1 << 16
"""Of a switch; a chassis of 512 ports with 16 queues each has 8,704."""
LONGEST_NAME, LARGEST = 256, 1 << 53
"""Characters of a name, and the largest count."""
_SHARE, _OVER_S = 0.2, 2.0
"""Of a core: a stream that takes more for so long would slow the run, and is ended."""


class Streamed(NamedTuple):
    """A value of a port, or of one of its queues ("": of the port)."""

    interface: str
    queue: str
    counter: str
    value: int


class GnmiStream:
    """A subscription and its latest values, which a thread receives.

    Args:
        device: name of the switch in the topology.
        stub: of the gNMI service.
        metadata: user name and password.
        period_ns: time between two values, ns; None: the switch sends what changes.
    """

    def __init__(self, device: str, stub: Any, *, metadata: list[tuple[str, str]], period_ns: int | None) -> None:
        self._device, self._stub, self._metadata, self._period_ns = device, stub, metadata, period_ns
        self._latest: dict[tuple[str, str, str], int] = {}
        self._silent_s = max(_TIMEOUT_S, _SILENT_PERIODS * (period_ns or 0) / NS_PER_S)
        self._received_s = time.monotonic()
        self._lock, self._synced, self._over = threading.Lock(), threading.Event(), threading.Event()
        self._call: Any = None
        self._ended = ""
        self._thread = threading.Thread(target=self._receive, name=f"gnmi-{device}", daemon=True)

    def open(self) -> None:
        """Subscribe, and wait for a first value of everything.

        Raises:
            HostError: the switch refuses, does not answer, or has no queues.
        """
        self._call = self._stub.Subscribe(self._requests(), metadata=self._metadata)
        self._thread.start()
        is_synced = self._synced.wait(_TIMEOUT_S)
        if not is_synced:
            self._ended = f"no answer in {_TIMEOUT_S} s"
        if not any(one.counter == DEPTH for one in self.read()):
            raise HostError(f"{self._device} streams no depth of a queue: leave out `queues` in dut.gnmi")

    def read(self) -> list[CounterReading]:
        """The latest values of every port, the depth summed over its queues.

        Raises:
            HostError: the stream has ended, or nothing comes any more where the switch should send again and again.
        """
        if self._ended or self._is_silent():
            why = self._ended or f"it has sent nothing for {self._silent_s:g} s"
            raise HostError(f"{self._device} does not stream its queues over gNMI ({why[:200]})")
        total: Counter[tuple[str, str]] = Counter()
        with self._lock:
            for (interface, _, counter), value in self._latest.items():
                total[interface, counter] += value
        return [CounterReading(self._device, *name, value) for name, value in total.items()]

    def close(self) -> None:
        """End the subscription; idempotent."""
        self._over.set()
        if self._call is not None:
            self._call.cancel()
            self._thread.join(_TIMEOUT_S)
            self._call = None

    def _requests(self) -> Iterator[Any]:
        """The subscription. Some switches end the stream with the requests, so that these last as long as it does."""
        from pygnmi.create_gnmi_path import gnmi_path_generator
        from pygnmi.spec.v080 import gnmi_pb2

        mode = gnmi_pb2.ON_CHANGE if self._period_ns is None else gnmi_pb2.SAMPLE
        subscriptions = [
            gnmi_pb2.Subscription(path=gnmi_path_generator(path), mode=mode, sample_interval=self._period_ns or 0)
            for path in _PATHS
        ]
        stream = gnmi_pb2.SubscriptionList(
            subscription=subscriptions, mode=gnmi_pb2.SubscriptionList.STREAM, encoding=gnmi_pb2.JSON_IETF
        )
        yield gnmi_pb2.SubscribeRequest(subscribe=stream)
        self._over.wait()

    def _is_silent(self) -> bool:
        return self._period_ns is not None and time.monotonic() - self._received_s > self._silent_s

    def _receive(self) -> None:
        from pygnmi.client import telemetryParser

        lower_priority()
        ended, load = "it ended the stream", _Load()
        try:
            for message in self._call:
                self._received_s = time.monotonic()
                answer = telemetryParser(message)
                if answer is None:
                    raise ValueError("it sent what cannot be read")
                found = {one[:3]: one.value for one in streamed(answer)}
                with self._lock:
                    self._latest |= found
                if len(self._latest) > MOST_VALUES:
                    raise ValueError(f"it sends more than {MOST_VALUES:,} values")
                if load.is_too_much():
                    raise ValueError("it sends faster than they can be read")
                if message.sync_response:
                    self._synced.set()
        except Exception as error:  # of grpc, and of what a switch may send
            details = getattr(error, "details", None)  # of an error of grpc
            ended = " ".join(str(details() if details is not None else error).split()) or type(error).__name__
        self._ended = ended
        self._call.cancel()
        self._synced.set()


class _Load:
    """How much of a core this thread takes."""

    def __init__(self) -> None:
        self._begun_s, self._spent_s = time.monotonic(), time.thread_time()

    def is_too_much(self) -> bool:
        """Whether that was more than `_SHARE` in the last `_OVER_S`, or somewhat longer."""
        now_s, spent_s = time.monotonic(), time.thread_time()
        passed_s = now_s - self._begun_s
        if passed_s < _OVER_S:
            return False
        is_over = spent_s - self._spent_s > _SHARE * passed_s
        self._begun_s, self._spent_s = now_s, spent_s
        return is_over


def streamed(answer: Mapping[str, Any]) -> Iterator[Streamed]:
    """The values in a message of the stream, as pygnmi decodes it; unknown leaves are ignored.

    Raises:
        ValueError: a value is no count, or a name is too long.
    """
    notification = answer.get("update") or {}
    for update in notification.get("update", ()):
        path, value = f"{notification.get('prefix') or ''}/{update.get('path') or ''}", update.get("val")
        leaves = value if isinstance(value, Mapping) else {path.rpartition("/")[2]: value}
        interface = key_in(path, "interface[interface-id=") or key_in(path, "interface[name=")
        for leaf, content in leaves.items():
            counter = _COUNTERS.get(leaf.rpartition(":")[2])
            if interface and counter is not None and content is not None:
                queue = key_in(path, "queue[name=") or ""
                if len(interface) + len(queue) > LONGEST_NAME:
                    raise ValueError(f"a name has more than {LONGEST_NAME} characters")
                yield Streamed(interface, queue, counter, count_in(leaf, content))


def count_in(leaf: str, content: object) -> int:
    """A count, from 0 to 2 ** 53.

    Raises:
        ValueError: it is none.
    """
    try:
        value = int(content)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        value = -1
    if not 0 <= value <= LARGEST:
        raise ValueError(f"{leaf} is {str(content)[:40]!r}, which is no count")
    return int(value)


def key_in(path: str, key: str) -> str | None:
    """The value of a key in `…/interface[name=Ethernet0]/…`; `key`: `interface[name=`."""
    _, found, rest = path.partition(key)
    return rest.partition("]")[0] if found else None
