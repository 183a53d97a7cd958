"""What arrives of Open Traffic Generator's model. What does not is in `refused`; names and defaults are upstream's.

Source: open-traffic-generator/models, pull request 490 (open), commit 61045b7b, on version 1.61.0 of the model.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from emulator.schema import Section

MODEL_VERSION = "1.61.0"
MOST_RUNS = 99
"""Of a configuration: stages times loops."""

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=60)]
Positive = Annotated[int, Meta(ge=1, le=1 << 53)]


class OtgDevice(Section, frozen=True, kw_only=True):
    """A rank's place: a host of the topology, or, over loopback, any name."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]


class FlowDevices(Section, frozen=True, kw_only=True):
    """A flow from every sender to every receiver."""

    mode: Literal["mesh"] = "mesh"
    tx_names: tuple[str, ...]
    rx_names: tuple[str, ...]


class TxRx(Section, frozen=True, kw_only=True):
    """Endpoints of a flow."""

    choice: Literal["device"] = "device"
    device: FlowDevices


class OtgRate(Section, frozen=True, kw_only=True):
    """Rate of a flow: exactly one of these."""

    choice: Literal["bps", "kbps", "mbps", "gbps", "percentage"] | None = None
    bps: Positive | None = None
    kbps: Positive | None = None
    mbps: Positive | None = None
    gbps: Positive | None = None
    percentage: Annotated[float, Meta(gt=0, lt=100)] | None = None

    def __post_init__(self) -> None:
        names = ("bps", "kbps", "mbps", "gbps", "percentage")
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1 or self.choice not in (None, given[0]):
            raise ValueError(f"give the value of one choice: {', '.join(names)}")

    @property
    def text(self) -> str | int:
        """As in a run spec: bit/s, or a share of the port's rate."""
        if self.percentage is not None:
            return f"{self.percentage:g} %"
        scales = ((self.bps, 1), (self.kbps, 10**3), (self.mbps, 10**6), (self.gbps, 10**9))
        return next(value * scale for value, scale in scales if value is not None)


class OtgFlow(Section, frozen=True, kw_only=True):
    """Background traffic of the stages that name it."""

    name: Name
    tx_rx: TxRx
    rate: OtgRate


class OtgAlgorithm(Section, frozen=True, kw_only=True):
    """A collective and how it is played."""

    choice: Literal["ring_allreduce", "halving_doubling", "dual_tree", "all_to_all_direct"] = "ring_allreduce"
    phase: Literal["allreduce", "reduce_scatter", "all_gather"] = "allreduce"


class FixedGap(Section, frozen=True, kw_only=True):
    """Its default is 200 ms upstream, so 0 has to be written."""

    ms: Literal[0]


class ComputeGap(Section, frozen=True, kw_only=True):
    """Time between iterations: none."""

    choice: Literal["fixed"] = "fixed"
    fixed: FixedGap


class Generation(Section, frozen=True, kw_only=True):
    """Size of a collective, as nccl-tests counts it."""

    data_size: Positive = 160
    data_size_unit: Literal["gigabit", "gigabyte", "megabit", "megabyte"] = "gigabit"
    compute_gap: ComputeGap | None = None

    @property
    def size_bytes(self) -> int:
        """Of the whole array."""
        bits = {"gigabit": 10**9, "gigabyte": 8 * 10**9, "megabit": 10**6, "megabyte": 8 * 10**6}
        return self.data_size * bits[self.data_size_unit] // 8


class ReliableConnection(Section, frozen=True, kw_only=True):
    """Headers of data packets."""

    dscp: Annotated[int, Meta(ge=0, le=63)] = 24
    ecn: Literal["non_ect", "ect_1", "ect_0"] = "ect_1"


class ConnectionType(Section, frozen=True, kw_only=True):
    """Reliable connections."""

    choice: Literal["reliable_connection"] = "reliable_connection"
    reliable_connection: ReliableConnection | None = None


class Rocev2Policy(Section, frozen=True, kw_only=True):
    """Of all queue pairs of a communicator."""

    encapsulation: Literal["ipv4", "ipv6"] = "ipv4"
    connection_type: ConnectionType | None = None
    ib_mtu: Literal[256, 512, 1024, 2048, 4096] = 4096
    qps_per_peer: Annotated[int, Meta(ge=1, le=65_535)] = 1
    chunk_size_kb: Annotated[int, Meta(ge=1, le=4_194_304)] = 4_194_304


class Communicator(Section, frozen=True, kw_only=True):
    """Ranks of a collective: a job."""

    name: Name
    device_names: Annotated[tuple[str, ...], Meta(min_length=2)]
    algorithm: OtgAlgorithm | None = None
    generation: Generation = Generation()
    rocev2: Rocev2Policy | None = None


class FixedIterations(Section, frozen=True, kw_only=True):
    """The interval is 1000 ms upstream by default, so 0 has to be written."""

    count: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)] = 10
    interval_ms: Literal[0]


class Duration(Section, frozen=True, kw_only=True):
    """A number of iterations."""

    choice: Literal["fixed_iterations"] = "fixed_iterations"
    fixed_iterations: FixedIterations


class Stage(Section, frozen=True, kw_only=True):
    """Communicators that play at once: a run."""

    name: Name
    algorithm: OtgAlgorithm = OtgAlgorithm()
    communicators: Annotated[tuple[Communicator, ...], Meta(min_length=1)]
    bg_flow_names: tuple[str, ...] = ()
    duration: Duration


class IterationRecording(Section, frozen=True, kw_only=True):
    """Records of single iterations: of each, for there is no ideal time where ports have no rate."""

    enable: bool = False
    jct_percent_threshold: float = 105.0
    drop_percent_threshold: float = 5.0
    reorder_percent_threshold: float = 5.0
    l1_bus_bw_tx_time_percent_threshold: float = 105.0
    max_record_count: Annotated[int, Meta(ge=1, lt=1 << 32)] = 5000

    def __post_init__(self) -> None:
        above = [name for name in self.__struct_fields__ if name.endswith("threshold") and getattr(self, name) != 0]
        if self.enable and above:
            raise ValueError(f"{above[0]}: write 0: every iteration is recorded, up to max_record_count")


class Ccl(Section, frozen=True, kw_only=True):
    """A job of collective communication: stages in their order."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    transport: Literal["rocev2"] = "rocev2"
    send_mode: Literal["async", "sync"] = "async"
    stage_loop_count: Annotated[int, Meta(ge=1, le=MOST_RUNS)] = 1
    stages: Annotated[tuple[Stage, ...], Meta(min_length=1)]
    iteration_recording: IterationRecording = IterationRecording()


class Config(Section, frozen=True, kw_only=True):
    """A configuration."""

    devices: tuple[OtgDevice, ...]
    flows: tuple[OtgFlow, ...] = ()
    ccl: Ccl


class CclState(Section, frozen=True, kw_only=True):
    """Start or stop."""

    state: Literal["start", "stop"]


class TrafficState(Section, frozen=True, kw_only=True):
    """Of collective communication."""

    choice: Literal["ccl"] = "ccl"
    ccl: CclState


class ControlState(Section, frozen=True, kw_only=True):
    """What to start or stop."""

    choice: Literal["traffic"] = "traffic"
    traffic: TrafficState


class CclRequest(Section, frozen=True, kw_only=True):
    """Which metrics; empty: all."""

    communicator_names: tuple[str, ...] = ()
    stage_names: tuple[str, ...] = ()
    column_names: tuple[str, ...] = ()


class MetricsRequest(Section, frozen=True, kw_only=True):
    """A question for metrics."""

    choice: Literal["ccl"] = "ccl"
    ccl: CclRequest = CclRequest()


Plain = dict[str, Any]
