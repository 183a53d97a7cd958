from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AgentMessage(_message.Message):
    __slots__ = ("hello", "bound", "credit", "ready", "completions", "iteration_done", "farewell", "abort", "progress", "compute_spans", "clock_reply", "flow_events", "step_records", "flow_report", "left", "proof", "chain_records", "job")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    COMPLETIONS_FIELD_NUMBER: _ClassVar[int]
    ITERATION_DONE_FIELD_NUMBER: _ClassVar[int]
    FAREWELL_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_SPANS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_REPLY_FIELD_NUMBER: _ClassVar[int]
    FLOW_EVENTS_FIELD_NUMBER: _ClassVar[int]
    STEP_RECORDS_FIELD_NUMBER: _ClassVar[int]
    FLOW_REPORT_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    CHAIN_RECORDS_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    bound: Bound
    credit: Credit
    ready: Ready
    completions: Completions
    iteration_done: IterationDone
    farewell: Farewell
    abort: Abort
    progress: Progress
    compute_spans: ComputeSpans
    clock_reply: ClockReply
    flow_events: FlowEvents
    step_records: StepRecords
    flow_report: FlowReport
    left: Left
    proof: Proof
    chain_records: ChainRecords
    job: int
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., bound: _Optional[_Union[Bound, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., ready: _Optional[_Union[Ready, _Mapping]] = ..., completions: _Optional[_Union[Completions, _Mapping]] = ..., iteration_done: _Optional[_Union[IterationDone, _Mapping]] = ..., farewell: _Optional[_Union[Farewell, _Mapping]] = ..., abort: _Optional[_Union[Abort, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., compute_spans: _Optional[_Union[ComputeSpans, _Mapping]] = ..., clock_reply: _Optional[_Union[ClockReply, _Mapping]] = ..., flow_events: _Optional[_Union[FlowEvents, _Mapping]] = ..., step_records: _Optional[_Union[StepRecords, _Mapping]] = ..., flow_report: _Optional[_Union[FlowReport, _Mapping]] = ..., left: _Optional[_Union[Left, _Mapping]] = ..., proof: _Optional[_Union[Proof, _Mapping]] = ..., chain_records: _Optional[_Union[ChainRecords, _Mapping]] = ..., job: _Optional[int] = ...) -> None: ...

class ControllerMessage(_message.Message):
    __slots__ = ("welcome", "setup", "directory", "chunk", "start", "finish", "abort", "prepare", "clock_query", "wait", "want_steps", "begin", "continue_through", "leave", "challenge", "signed", "renew", "job")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    SETUP_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    CLOCK_QUERY_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    WANT_STEPS_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    CONTINUE_THROUGH_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    SIGNED_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    setup: Setup
    directory: Directory
    chunk: Chunk
    start: Start
    finish: Finish
    abort: Abort
    prepare: Prepare
    clock_query: ClockQuery
    wait: Wait
    want_steps: WantSteps
    begin: Begin
    continue_through: Continue
    leave: Leave
    challenge: Challenge
    signed: Signed
    renew: Renew
    job: int
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., setup: _Optional[_Union[Setup, _Mapping]] = ..., directory: _Optional[_Union[Directory, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., finish: _Optional[_Union[Finish, _Mapping]] = ..., abort: _Optional[_Union[Abort, _Mapping]] = ..., prepare: _Optional[_Union[Prepare, _Mapping]] = ..., clock_query: _Optional[_Union[ClockQuery, _Mapping]] = ..., wait: _Optional[_Union[Wait, _Mapping]] = ..., want_steps: _Optional[_Union[WantSteps, _Mapping]] = ..., begin: _Optional[_Union[Begin, _Mapping]] = ..., continue_through: _Optional[_Union[Continue, _Mapping]] = ..., leave: _Optional[_Union[Leave, _Mapping]] = ..., challenge: _Optional[_Union[Challenge, _Mapping]] = ..., signed: _Optional[_Union[Signed, _Mapping]] = ..., renew: _Optional[_Union[Renew, _Mapping]] = ..., job: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("oldest_version", "newest_version", "agent", "pid", "hostname", "software", "facts", "clock_ns", "clock_id", "stays", "nonce", "claims", "ports")
    class FactsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    OLDEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    NEWEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_NS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    STAYS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    oldest_version: int
    newest_version: int
    agent: str
    pid: int
    hostname: str
    software: str
    facts: _containers.ScalarMap[str, str]
    clock_ns: int
    clock_id: str
    stays: bool
    nonce: bytes
    claims: str
    ports: _containers.RepeatedCompositeFieldContainer[Port]
    def __init__(self, oldest_version: _Optional[int] = ..., newest_version: _Optional[int] = ..., agent: _Optional[str] = ..., pid: _Optional[int] = ..., hostname: _Optional[str] = ..., software: _Optional[str] = ..., facts: _Optional[_Mapping[str, str]] = ..., clock_ns: _Optional[int] = ..., clock_id: _Optional[str] = ..., stays: _Optional[bool] = ..., nonce: _Optional[bytes] = ..., claims: _Optional[str] = ..., ports: _Optional[_Iterable[_Union[Port, _Mapping]]] = ...) -> None: ...

class Challenge(_message.Message):
    __slots__ = ("run_id", "nonce", "codes")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    CODES_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    nonce: bytes
    codes: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, run_id: _Optional[str] = ..., nonce: _Optional[bytes] = ..., codes: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Proof(_message.Message):
    __slots__ = ("code",)
    CODE_FIELD_NUMBER: _ClassVar[int]
    code: bytes
    def __init__(self, code: _Optional[bytes] = ...) -> None: ...

class Signed(_message.Message):
    __slots__ = ("message", "code", "signature", "certificate")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    message: bytes
    code: bytes
    signature: bytes
    certificate: bytes
    def __init__(self, message: _Optional[bytes] = ..., code: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., certificate: _Optional[bytes] = ...) -> None: ...

class Port(_message.Message):
    __slots__ = ("name", "addresses", "rate_bps", "mtu")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    MTU_FIELD_NUMBER: _ClassVar[int]
    name: str
    addresses: _containers.RepeatedScalarFieldContainer[str]
    rate_bps: int
    mtu: int
    def __init__(self, name: _Optional[str] = ..., addresses: _Optional[_Iterable[str]] = ..., rate_bps: _Optional[int] = ..., mtu: _Optional[int] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class Wait(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Renew(_message.Message):
    __slots__ = ("lease_ms",)
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    lease_ms: int
    def __init__(self, lease_ms: _Optional[int] = ...) -> None: ...

class ClockQuery(_message.Message):
    __slots__ = ("sent_ns",)
    SENT_NS_FIELD_NUMBER: _ClassVar[int]
    sent_ns: int
    def __init__(self, sent_ns: _Optional[int] = ...) -> None: ...

class ClockReply(_message.Message):
    __slots__ = ("query_sent_ns", "received_ns", "sent_ns")
    QUERY_SENT_NS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_NS_FIELD_NUMBER: _ClassVar[int]
    SENT_NS_FIELD_NUMBER: _ClassVar[int]
    query_sent_ns: int
    received_ns: int
    sent_ns: int
    def __init__(self, query_sent_ns: _Optional[int] = ..., received_ns: _Optional[int] = ..., sent_ns: _Optional[int] = ...) -> None: ...

class Setup(_message.Message):
    __slots__ = ("jobs", "networks", "flows", "report_interval_ns", "alternate_networks")
    class JobsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: JobSetup
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[JobSetup, _Mapping]] = ...) -> None: ...
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NETWORKS_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    REPORT_INTERVAL_NS_FIELD_NUMBER: _ClassVar[int]
    ALTERNATE_NETWORKS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.MessageMap[int, JobSetup]
    networks: _containers.RepeatedScalarFieldContainer[str]
    flows: _containers.RepeatedCompositeFieldContainer[FlowTask]
    report_interval_ns: int
    alternate_networks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, jobs: _Optional[_Mapping[int, JobSetup]] = ..., networks: _Optional[_Iterable[str]] = ..., flows: _Optional[_Iterable[_Union[FlowTask, _Mapping]]] = ..., report_interval_ns: _Optional[int] = ..., alternate_networks: _Optional[_Iterable[str]] = ...) -> None: ...

class JobSetup(_message.Message):
    __slots__ = ("run_id", "ranks", "transport", "message_bytes", "seed", "settings", "options", "domains", "prepares_itself")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    PREPARES_ITSELF_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    ranks: _containers.RepeatedCompositeFieldContainer[RankPlace]
    transport: str
    message_bytes: int
    seed: int
    settings: PlaySettings
    options: str
    domains: _containers.RepeatedCompositeFieldContainer[DomainPlace]
    prepares_itself: bool
    def __init__(self, run_id: _Optional[str] = ..., ranks: _Optional[_Iterable[_Union[RankPlace, _Mapping]]] = ..., transport: _Optional[str] = ..., message_bytes: _Optional[int] = ..., seed: _Optional[int] = ..., settings: _Optional[_Union[PlaySettings, _Mapping]] = ..., options: _Optional[str] = ..., domains: _Optional[_Iterable[_Union[DomainPlace, _Mapping]]] = ..., prepares_itself: _Optional[bool] = ...) -> None: ...

class PlaySettings(_message.Message):
    __slots__ = ("credits", "instances", "algorithms", "groups", "record_steps", "algorithm_files", "layouts", "hosts")
    class AlgorithmFilesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    ALGORITHMS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    RECORD_STEPS_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FILES_FIELD_NUMBER: _ClassVar[int]
    LAYOUTS_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    credits: bool
    instances: int
    algorithms: _containers.RepeatedScalarFieldContainer[str]
    groups: _containers.RepeatedCompositeFieldContainer[Group]
    record_steps: int
    algorithm_files: _containers.ScalarMap[str, str]
    layouts: Layouts
    hosts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, credits: _Optional[bool] = ..., instances: _Optional[int] = ..., algorithms: _Optional[_Iterable[str]] = ..., groups: _Optional[_Iterable[_Union[Group, _Mapping]]] = ..., record_steps: _Optional[int] = ..., algorithm_files: _Optional[_Mapping[str, str]] = ..., layouts: _Optional[_Union[Layouts, _Mapping]] = ..., hosts: _Optional[_Iterable[int]] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("ranks",)
    RANKS_FIELD_NUMBER: _ClassVar[int]
    ranks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ranks: _Optional[_Iterable[int]] = ...) -> None: ...

class Layouts(_message.Message):
    __slots__ = ("nodes", "rails", "domains")
    NODES_FIELD_NUMBER: _ClassVar[int]
    RAILS_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[int]
    rails: _containers.RepeatedScalarFieldContainer[int]
    domains: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, nodes: _Optional[_Iterable[int]] = ..., rails: _Optional[_Iterable[int]] = ..., domains: _Optional[_Iterable[int]] = ...) -> None: ...

class DomainPlace(_message.Message):
    __slots__ = ("ranks", "rate_bps", "latency_ns")
    RANKS_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    LATENCY_NS_FIELD_NUMBER: _ClassVar[int]
    ranks: _containers.RepeatedScalarFieldContainer[int]
    rate_bps: int
    latency_ns: int
    def __init__(self, ranks: _Optional[_Iterable[int]] = ..., rate_bps: _Optional[int] = ..., latency_ns: _Optional[int] = ...) -> None: ...

class FlowTask(_message.Message):
    __slots__ = ("number", "kind", "title", "host", "interface", "document")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    number: int
    kind: str
    title: str
    host: str
    interface: str
    document: str
    def __init__(self, number: _Optional[int] = ..., kind: _Optional[str] = ..., title: _Optional[str] = ..., host: _Optional[str] = ..., interface: _Optional[str] = ..., document: _Optional[str] = ...) -> None: ...

class FlowReport(_message.Message):
    __slots__ = ("number", "is_complete", "figures")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    IS_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    number: int
    is_complete: bool
    figures: _containers.RepeatedCompositeFieldContainer[FlowFigures]
    def __init__(self, number: _Optional[int] = ..., is_complete: _Optional[bool] = ..., figures: _Optional[_Iterable[_Union[FlowFigures, _Mapping]]] = ...) -> None: ...

class FlowFigures(_message.Message):
    __slots__ = ("direction", "observer", "messages", "bytes", "start_ns", "duration_ns", "bytes_per_s", "packets", "retransmits", "timeouts", "naks", "rnr_naks", "duplicates", "latency_median_ns", "latency_p99_ns", "wire_bps", "lost", "offered_messages", "offered_bytes", "offered_bps", "lateness_median_ns", "lateness_p99_ns", "completions", "completion_median_ns", "completion_p99_ns", "gaps")
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    OBSERVER_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    RETRANSMITS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    NAKS_FIELD_NUMBER: _ClassVar[int]
    RNR_NAKS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    LATENCY_MEDIAN_NS_FIELD_NUMBER: _ClassVar[int]
    LATENCY_P99_NS_FIELD_NUMBER: _ClassVar[int]
    WIRE_BPS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    OFFERED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    OFFERED_BYTES_FIELD_NUMBER: _ClassVar[int]
    OFFERED_BPS_FIELD_NUMBER: _ClassVar[int]
    LATENESS_MEDIAN_NS_FIELD_NUMBER: _ClassVar[int]
    LATENESS_P99_NS_FIELD_NUMBER: _ClassVar[int]
    COMPLETIONS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_MEDIAN_NS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_P99_NS_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    direction: str
    observer: str
    messages: int
    bytes: int
    start_ns: int
    duration_ns: int
    bytes_per_s: float
    packets: int
    retransmits: int
    timeouts: int
    naks: int
    rnr_naks: int
    duplicates: int
    latency_median_ns: float
    latency_p99_ns: float
    wire_bps: float
    lost: int
    offered_messages: int
    offered_bytes: int
    offered_bps: float
    lateness_median_ns: float
    lateness_p99_ns: float
    completions: int
    completion_median_ns: float
    completion_p99_ns: float
    gaps: _containers.RepeatedCompositeFieldContainer[FlowGap]
    def __init__(self, direction: _Optional[str] = ..., observer: _Optional[str] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., start_ns: _Optional[int] = ..., duration_ns: _Optional[int] = ..., bytes_per_s: _Optional[float] = ..., packets: _Optional[int] = ..., retransmits: _Optional[int] = ..., timeouts: _Optional[int] = ..., naks: _Optional[int] = ..., rnr_naks: _Optional[int] = ..., duplicates: _Optional[int] = ..., latency_median_ns: _Optional[float] = ..., latency_p99_ns: _Optional[float] = ..., wire_bps: _Optional[float] = ..., lost: _Optional[int] = ..., offered_messages: _Optional[int] = ..., offered_bytes: _Optional[int] = ..., offered_bps: _Optional[float] = ..., lateness_median_ns: _Optional[float] = ..., lateness_p99_ns: _Optional[float] = ..., completions: _Optional[int] = ..., completion_median_ns: _Optional[float] = ..., completion_p99_ns: _Optional[float] = ..., gaps: _Optional[_Iterable[_Union[FlowGap, _Mapping]]] = ...) -> None: ...

class FlowGap(_message.Message):
    __slots__ = ("start_ns", "end_ns", "lost", "late_ns")
    START_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    LATE_NS_FIELD_NUMBER: _ClassVar[int]
    start_ns: int
    end_ns: int
    lost: int
    late_ns: int
    def __init__(self, start_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., lost: _Optional[int] = ..., late_ns: _Optional[int] = ...) -> None: ...

class RankPlace(_message.Message):
    __slots__ = ("rank", "host", "nodes", "window", "interface", "port", "storage", "alternate", "alternate_interface")
    RANK_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    ALTERNATE_FIELD_NUMBER: _ClassVar[int]
    ALTERNATE_INTERFACE_FIELD_NUMBER: _ClassVar[int]
    rank: int
    host: str
    nodes: int
    window: int
    interface: str
    port: PortShare
    storage: bool
    alternate: str
    alternate_interface: str
    def __init__(self, rank: _Optional[int] = ..., host: _Optional[str] = ..., nodes: _Optional[int] = ..., window: _Optional[int] = ..., interface: _Optional[str] = ..., port: _Optional[_Union[PortShare, _Mapping]] = ..., storage: _Optional[bool] = ..., alternate: _Optional[str] = ..., alternate_interface: _Optional[str] = ...) -> None: ...

class PortShare(_message.Message):
    __slots__ = ("number", "line_rate_bps", "cap_bps")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LINE_RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    CAP_BPS_FIELD_NUMBER: _ClassVar[int]
    number: int
    line_rate_bps: int
    cap_bps: int
    def __init__(self, number: _Optional[int] = ..., line_rate_bps: _Optional[int] = ..., cap_bps: _Optional[int] = ...) -> None: ...

class Bound(_message.Message):
    __slots__ = ("places", "nics")
    class PlacesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: Place
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[Place, _Mapping]] = ...) -> None: ...
    PLACES_FIELD_NUMBER: _ClassVar[int]
    NICS_FIELD_NUMBER: _ClassVar[int]
    places: _containers.MessageMap[int, Place]
    nics: _containers.RepeatedCompositeFieldContainer[NicFacts]
    def __init__(self, places: _Optional[_Mapping[int, Place]] = ..., nics: _Optional[_Iterable[_Union[NicFacts, _Mapping]]] = ...) -> None: ...

class NicFacts(_message.Message):
    __slots__ = ("interface", "driver", "firmware", "speed_bps", "mtu")
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    FIRMWARE_FIELD_NUMBER: _ClassVar[int]
    SPEED_BPS_FIELD_NUMBER: _ClassVar[int]
    MTU_FIELD_NUMBER: _ClassVar[int]
    interface: str
    driver: str
    firmware: str
    speed_bps: int
    mtu: int
    def __init__(self, interface: _Optional[str] = ..., driver: _Optional[str] = ..., firmware: _Optional[str] = ..., speed_bps: _Optional[int] = ..., mtu: _Optional[int] = ...) -> None: ...

class Directory(_message.Message):
    __slots__ = ("places",)
    class PlacesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: Place
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[Place, _Mapping]] = ...) -> None: ...
    PLACES_FIELD_NUMBER: _ClassVar[int]
    places: _containers.MessageMap[int, Place]
    def __init__(self, places: _Optional[_Mapping[int, Place]] = ...) -> None: ...

class Place(_message.Message):
    __slots__ = ("host", "port", "alternate")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    ALTERNATE_FIELD_NUMBER: _ClassVar[int]
    host: str
    port: int
    alternate: str
    def __init__(self, host: _Optional[str] = ..., port: _Optional[int] = ..., alternate: _Optional[str] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("rank", "nodes")
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    rank: int
    nodes: int
    def __init__(self, rank: _Optional[int] = ..., nodes: _Optional[int] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("rank", "first_position", "resource", "duration_ns", "dependencies", "distance", "communications", "node_id")
    class CommunicationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: PlannedCommunication
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[PlannedCommunication, _Mapping]] = ...) -> None: ...
    RANK_FIELD_NUMBER: _ClassVar[int]
    FIRST_POSITION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    DISTANCE_FIELD_NUMBER: _ClassVar[int]
    COMMUNICATIONS_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    rank: int
    first_position: int
    resource: _containers.RepeatedScalarFieldContainer[int]
    duration_ns: _containers.RepeatedScalarFieldContainer[int]
    dependencies: _containers.RepeatedScalarFieldContainer[int]
    distance: _containers.RepeatedScalarFieldContainer[int]
    communications: _containers.MessageMap[int, PlannedCommunication]
    node_id: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, rank: _Optional[int] = ..., first_position: _Optional[int] = ..., resource: _Optional[_Iterable[int]] = ..., duration_ns: _Optional[_Iterable[int]] = ..., dependencies: _Optional[_Iterable[int]] = ..., distance: _Optional[_Iterable[int]] = ..., communications: _Optional[_Mapping[int, PlannedCommunication]] = ..., node_id: _Optional[_Iterable[int]] = ...) -> None: ...

class PlannedCommunication(_message.Message):
    __slots__ = ("kind", "group", "size_bytes", "instance", "peer", "root", "algorithm", "send_splits", "recv_splits")
    KIND_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    SEND_SPLITS_FIELD_NUMBER: _ClassVar[int]
    RECV_SPLITS_FIELD_NUMBER: _ClassVar[int]
    kind: int
    group: int
    size_bytes: int
    instance: int
    peer: int
    root: int
    algorithm: int
    send_splits: _containers.RepeatedScalarFieldContainer[int]
    recv_splits: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, kind: _Optional[int] = ..., group: _Optional[int] = ..., size_bytes: _Optional[int] = ..., instance: _Optional[int] = ..., peer: _Optional[int] = ..., root: _Optional[int] = ..., algorithm: _Optional[int] = ..., send_splits: _Optional[_Iterable[int]] = ..., recv_splits: _Optional[_Iterable[int]] = ...) -> None: ...

class Prepare(_message.Message):
    __slots__ = ("iteration",)
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    def __init__(self, iteration: _Optional[int] = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Begin(_message.Message):
    __slots__ = ("at_ns",)
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    at_ns: int
    def __init__(self, at_ns: _Optional[int] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("iteration", "at_ns", "through")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    at_ns: int
    through: int
    def __init__(self, iteration: _Optional[int] = ..., at_ns: _Optional[int] = ..., through: _Optional[int] = ...) -> None: ...

class Continue(_message.Message):
    __slots__ = ("through",)
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    through: int
    def __init__(self, through: _Optional[int] = ...) -> None: ...

class Completions(_message.Message):
    __slots__ = ("iteration", "rank", "node_id", "post_ns", "done_ns", "arrival_ns", "bytes_sent", "bytes_received", "early", "read_delay_ns", "core_wait_ns")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    POST_NS_FIELD_NUMBER: _ClassVar[int]
    DONE_NS_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_NS_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    BYTES_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    EARLY_FIELD_NUMBER: _ClassVar[int]
    READ_DELAY_NS_FIELD_NUMBER: _ClassVar[int]
    CORE_WAIT_NS_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    rank: _containers.RepeatedScalarFieldContainer[int]
    node_id: _containers.RepeatedScalarFieldContainer[int]
    post_ns: _containers.RepeatedScalarFieldContainer[int]
    done_ns: _containers.RepeatedScalarFieldContainer[int]
    arrival_ns: _containers.RepeatedScalarFieldContainer[int]
    bytes_sent: _containers.RepeatedScalarFieldContainer[int]
    bytes_received: _containers.RepeatedScalarFieldContainer[int]
    early: _containers.RepeatedScalarFieldContainer[bool]
    read_delay_ns: _containers.RepeatedScalarFieldContainer[int]
    core_wait_ns: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, iteration: _Optional[int] = ..., rank: _Optional[_Iterable[int]] = ..., node_id: _Optional[_Iterable[int]] = ..., post_ns: _Optional[_Iterable[int]] = ..., done_ns: _Optional[_Iterable[int]] = ..., arrival_ns: _Optional[_Iterable[int]] = ..., bytes_sent: _Optional[_Iterable[int]] = ..., bytes_received: _Optional[_Iterable[int]] = ..., early: _Optional[_Iterable[bool]] = ..., read_delay_ns: _Optional[_Iterable[int]] = ..., core_wait_ns: _Optional[_Iterable[int]] = ...) -> None: ...

class ComputeSpans(_message.Message):
    __slots__ = ("iteration", "rank", "start_ns", "end_ns")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    rank: _containers.RepeatedScalarFieldContainer[int]
    start_ns: _containers.RepeatedScalarFieldContainer[int]
    end_ns: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, iteration: _Optional[int] = ..., rank: _Optional[_Iterable[int]] = ..., start_ns: _Optional[_Iterable[int]] = ..., end_ns: _Optional[_Iterable[int]] = ...) -> None: ...

class IterationDone(_message.Message):
    __slots__ = ("iteration", "ranks", "start_ahead_ns")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    START_AHEAD_NS_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    ranks: _containers.RepeatedCompositeFieldContainer[RankSummary]
    start_ahead_ns: int
    def __init__(self, iteration: _Optional[int] = ..., ranks: _Optional[_Iterable[_Union[RankSummary, _Mapping]]] = ..., start_ahead_ns: _Optional[int] = ...) -> None: ...

class RankSummary(_message.Message):
    __slots__ = ("rank", "start_ns", "end_ns", "compute_ns", "communication_ns", "overlap_ns")
    RANK_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_NS_FIELD_NUMBER: _ClassVar[int]
    COMMUNICATION_NS_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_NS_FIELD_NUMBER: _ClassVar[int]
    rank: int
    start_ns: int
    end_ns: int
    compute_ns: int
    communication_ns: int
    overlap_ns: int
    def __init__(self, rank: _Optional[int] = ..., start_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., compute_ns: _Optional[int] = ..., communication_ns: _Optional[int] = ..., overlap_ns: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("bytes_sent", "events", "computing", "waiting_on", "silence", "silence_ns")
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    COMPUTING_FIELD_NUMBER: _ClassVar[int]
    WAITING_ON_FIELD_NUMBER: _ClassVar[int]
    SILENCE_FIELD_NUMBER: _ClassVar[int]
    SILENCE_NS_FIELD_NUMBER: _ClassVar[int]
    bytes_sent: int
    events: int
    computing: bool
    waiting_on: str
    silence: _containers.RepeatedScalarFieldContainer[int]
    silence_ns: int
    def __init__(self, bytes_sent: _Optional[int] = ..., events: _Optional[int] = ..., computing: _Optional[bool] = ..., waiting_on: _Optional[str] = ..., silence: _Optional[_Iterable[int]] = ..., silence_ns: _Optional[int] = ...) -> None: ...

class Finish(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Leave(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Left(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Farewell(_message.Message):
    __slots__ = ("flows", "peak_rss_bytes", "post_lateness_median_ns", "transport", "steal_fraction", "core_wait_fraction", "steps_lost", "timeline", "migrations")
    class TransportEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Parameter
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Parameter, _Mapping]] = ...) -> None: ...
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    PEAK_RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    POST_LATENESS_MEDIAN_NS_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    STEAL_FRACTION_FIELD_NUMBER: _ClassVar[int]
    CORE_WAIT_FRACTION_FIELD_NUMBER: _ClassVar[int]
    STEPS_LOST_FIELD_NUMBER: _ClassVar[int]
    TIMELINE_FIELD_NUMBER: _ClassVar[int]
    MIGRATIONS_FIELD_NUMBER: _ClassVar[int]
    flows: _containers.RepeatedCompositeFieldContainer[FlowCounters]
    peak_rss_bytes: int
    post_lateness_median_ns: int
    transport: _containers.MessageMap[str, Parameter]
    steal_fraction: float
    core_wait_fraction: float
    steps_lost: int
    timeline: Timeline
    migrations: _containers.RepeatedCompositeFieldContainer[Migration]
    def __init__(self, flows: _Optional[_Iterable[_Union[FlowCounters, _Mapping]]] = ..., peak_rss_bytes: _Optional[int] = ..., post_lateness_median_ns: _Optional[int] = ..., transport: _Optional[_Mapping[str, Parameter]] = ..., steal_fraction: _Optional[float] = ..., core_wait_fraction: _Optional[float] = ..., steps_lost: _Optional[int] = ..., timeline: _Optional[_Union[Timeline, _Mapping]] = ..., migrations: _Optional[_Iterable[_Union[Migration, _Mapping]]] = ...) -> None: ...

class Migration(_message.Message):
    __slots__ = ("rank", "peer", "qpn", "at_ns", "is_back")
    RANK_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    QPN_FIELD_NUMBER: _ClassVar[int]
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    IS_BACK_FIELD_NUMBER: _ClassVar[int]
    rank: int
    peer: int
    qpn: int
    at_ns: int
    is_back: bool
    def __init__(self, rank: _Optional[int] = ..., peer: _Optional[int] = ..., qpn: _Optional[int] = ..., at_ns: _Optional[int] = ..., is_back: _Optional[bool] = ...) -> None: ...

class Timeline(_message.Message):
    __slots__ = ("bin_ns", "flows", "flow", "start_ns", "bytes", "retransmits", "ecn_marks")
    BIN_NS_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    RETRANSMITS_FIELD_NUMBER: _ClassVar[int]
    ECN_MARKS_FIELD_NUMBER: _ClassVar[int]
    bin_ns: int
    flows: _containers.RepeatedCompositeFieldContainer[TimelineFlow]
    flow: _containers.RepeatedScalarFieldContainer[int]
    start_ns: _containers.RepeatedScalarFieldContainer[int]
    bytes: _containers.RepeatedScalarFieldContainer[int]
    retransmits: _containers.RepeatedScalarFieldContainer[int]
    ecn_marks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, bin_ns: _Optional[int] = ..., flows: _Optional[_Iterable[_Union[TimelineFlow, _Mapping]]] = ..., flow: _Optional[_Iterable[int]] = ..., start_ns: _Optional[_Iterable[int]] = ..., bytes: _Optional[_Iterable[int]] = ..., retransmits: _Optional[_Iterable[int]] = ..., ecn_marks: _Optional[_Iterable[int]] = ...) -> None: ...

class TimelineFlow(_message.Message):
    __slots__ = ("src", "dst", "qpn")
    SRC_FIELD_NUMBER: _ClassVar[int]
    DST_FIELD_NUMBER: _ClassVar[int]
    QPN_FIELD_NUMBER: _ClassVar[int]
    src: int
    dst: int
    qpn: int
    def __init__(self, src: _Optional[int] = ..., dst: _Optional[int] = ..., qpn: _Optional[int] = ...) -> None: ...

class Parameter(_message.Message):
    __slots__ = ("unit", "number", "ratio", "text", "flag")
    UNIT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    RATIO_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    unit: str
    number: int
    ratio: float
    text: str
    flag: bool
    def __init__(self, unit: _Optional[str] = ..., number: _Optional[int] = ..., ratio: _Optional[float] = ..., text: _Optional[str] = ..., flag: _Optional[bool] = ...) -> None: ...

class FlowCounters(_message.Message):
    __slots__ = ("src", "dst", "bytes", "messages", "packets", "retransmits", "naks", "cnps_sent", "cnps_received", "ecn_marks", "out_of_order", "rtt_ns", "qpn", "source_port", "timeouts", "rnr_naks", "duplicates", "largest_displacement", "dropped_header", "dropped_icrc", "dropped_payload", "medium", "copies")
    SRC_FIELD_NUMBER: _ClassVar[int]
    DST_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    RETRANSMITS_FIELD_NUMBER: _ClassVar[int]
    NAKS_FIELD_NUMBER: _ClassVar[int]
    CNPS_SENT_FIELD_NUMBER: _ClassVar[int]
    CNPS_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    ECN_MARKS_FIELD_NUMBER: _ClassVar[int]
    OUT_OF_ORDER_FIELD_NUMBER: _ClassVar[int]
    RTT_NS_FIELD_NUMBER: _ClassVar[int]
    QPN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_PORT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    RNR_NAKS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    LARGEST_DISPLACEMENT_FIELD_NUMBER: _ClassVar[int]
    DROPPED_HEADER_FIELD_NUMBER: _ClassVar[int]
    DROPPED_ICRC_FIELD_NUMBER: _ClassVar[int]
    DROPPED_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    MEDIUM_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    src: int
    dst: int
    bytes: int
    messages: int
    packets: int
    retransmits: int
    naks: int
    cnps_sent: int
    cnps_received: int
    ecn_marks: int
    out_of_order: int
    rtt_ns: int
    qpn: int
    source_port: int
    timeouts: int
    rnr_naks: int
    duplicates: int
    largest_displacement: int
    dropped_header: int
    dropped_icrc: int
    dropped_payload: int
    medium: str
    copies: int
    def __init__(self, src: _Optional[int] = ..., dst: _Optional[int] = ..., bytes: _Optional[int] = ..., messages: _Optional[int] = ..., packets: _Optional[int] = ..., retransmits: _Optional[int] = ..., naks: _Optional[int] = ..., cnps_sent: _Optional[int] = ..., cnps_received: _Optional[int] = ..., ecn_marks: _Optional[int] = ..., out_of_order: _Optional[int] = ..., rtt_ns: _Optional[int] = ..., qpn: _Optional[int] = ..., source_port: _Optional[int] = ..., timeouts: _Optional[int] = ..., rnr_naks: _Optional[int] = ..., duplicates: _Optional[int] = ..., largest_displacement: _Optional[int] = ..., dropped_header: _Optional[int] = ..., dropped_icrc: _Optional[int] = ..., dropped_payload: _Optional[int] = ..., medium: _Optional[str] = ..., copies: _Optional[int] = ...) -> None: ...

class FlowEvents(_message.Message):
    __slots__ = ("iteration", "flows")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    flows: _containers.RepeatedCompositeFieldContainer[FlowCounters]
    def __init__(self, iteration: _Optional[int] = ..., flows: _Optional[_Iterable[_Union[FlowCounters, _Mapping]]] = ...) -> None: ...

class WantSteps(_message.Message):
    __slots__ = ("iteration", "instances")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    instances: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, iteration: _Optional[int] = ..., instances: _Optional[_Iterable[int]] = ...) -> None: ...

class StepRecords(_message.Message):
    __slots__ = ("iteration", "blocks")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    blocks: _containers.RepeatedCompositeFieldContainer[RankSteps]
    def __init__(self, iteration: _Optional[int] = ..., blocks: _Optional[_Iterable[_Union[RankSteps, _Mapping]]] = ...) -> None: ...

class RankSteps(_message.Message):
    __slots__ = ("iteration", "instance", "rank", "node_id", "receiver", "send_lane", "step", "size_bytes", "post_ns", "acknowledged_ns", "sender", "receive_lane", "arrival_ns", "start_ns")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    SEND_LANE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    POST_NS_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_NS_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RECEIVE_LANE_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_NS_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    instance: int
    rank: int
    node_id: int
    receiver: _containers.RepeatedScalarFieldContainer[int]
    send_lane: _containers.RepeatedScalarFieldContainer[int]
    step: _containers.RepeatedScalarFieldContainer[int]
    size_bytes: _containers.RepeatedScalarFieldContainer[int]
    post_ns: _containers.RepeatedScalarFieldContainer[int]
    acknowledged_ns: _containers.RepeatedScalarFieldContainer[int]
    sender: _containers.RepeatedScalarFieldContainer[int]
    receive_lane: _containers.RepeatedScalarFieldContainer[int]
    arrival_ns: _containers.RepeatedScalarFieldContainer[int]
    start_ns: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, iteration: _Optional[int] = ..., instance: _Optional[int] = ..., rank: _Optional[int] = ..., node_id: _Optional[int] = ..., receiver: _Optional[_Iterable[int]] = ..., send_lane: _Optional[_Iterable[int]] = ..., step: _Optional[_Iterable[int]] = ..., size_bytes: _Optional[_Iterable[int]] = ..., post_ns: _Optional[_Iterable[int]] = ..., acknowledged_ns: _Optional[_Iterable[int]] = ..., sender: _Optional[_Iterable[int]] = ..., receive_lane: _Optional[_Iterable[int]] = ..., arrival_ns: _Optional[_Iterable[int]] = ..., start_ns: _Optional[_Iterable[int]] = ...) -> None: ...

class ChainRecords(_message.Message):
    __slots__ = ("iteration", "blocks")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    blocks: _containers.RepeatedCompositeFieldContainer[MemberChain]
    def __init__(self, iteration: _Optional[int] = ..., blocks: _Optional[_Iterable[_Union[MemberChain, _Mapping]]] = ...) -> None: ...

class MemberChain(_message.Message):
    __slots__ = ("iteration", "instance", "rank", "node_id", "post_ns", "stalled_ns", "receiver", "send_lane", "cause", "sent_ns", "sender", "receive_lane", "received_ns", "port_ns")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    POST_NS_FIELD_NUMBER: _ClassVar[int]
    STALLED_NS_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    SEND_LANE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    SENT_NS_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RECEIVE_LANE_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_NS_FIELD_NUMBER: _ClassVar[int]
    PORT_NS_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    instance: int
    rank: int
    node_id: int
    post_ns: int
    stalled_ns: int
    receiver: _containers.RepeatedScalarFieldContainer[int]
    send_lane: _containers.RepeatedScalarFieldContainer[int]
    cause: _containers.RepeatedScalarFieldContainer[int]
    sent_ns: _containers.RepeatedScalarFieldContainer[int]
    sender: _containers.RepeatedScalarFieldContainer[int]
    receive_lane: _containers.RepeatedScalarFieldContainer[int]
    received_ns: _containers.RepeatedScalarFieldContainer[int]
    port_ns: int
    def __init__(self, iteration: _Optional[int] = ..., instance: _Optional[int] = ..., rank: _Optional[int] = ..., node_id: _Optional[int] = ..., post_ns: _Optional[int] = ..., stalled_ns: _Optional[int] = ..., receiver: _Optional[_Iterable[int]] = ..., send_lane: _Optional[_Iterable[int]] = ..., cause: _Optional[_Iterable[int]] = ..., sent_ns: _Optional[_Iterable[int]] = ..., sender: _Optional[_Iterable[int]] = ..., receive_lane: _Optional[_Iterable[int]] = ..., received_ns: _Optional[_Iterable[int]] = ..., port_ns: _Optional[int] = ...) -> None: ...

class Abort(_message.Message):
    __slots__ = ("reason", "ranks")
    REASON_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    ranks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, reason: _Optional[str] = ..., ranks: _Optional[_Iterable[int]] = ...) -> None: ...
