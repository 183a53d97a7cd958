"""A configuration of Open Traffic Generator, and a value for every field of the proposed model."""

import copy
import re
from typing import Any

STAGE, COMMUNICATOR = "ccl.stages[0]", "ccl.stages[0].communicators[0]"
CONNECTION = f"{COMMUNICATOR}.rocev2.connection_type"
RECORDING = {
    "enable": True,
    "jct_percent_threshold": 0,
    "drop_percent_threshold": 0,
    "reorder_percent_threshold": 0,
    "l1_bus_bw_tx_time_percent_threshold": 0,
}


def configuration() -> dict[str, Any]:
    """Two ranks, one all-reduce of 125 kB."""
    communicator = {
        "name": "tp",
        "device_names": ["h0", "h1"],
        "generation": {"data_size": 1, "data_size_unit": "megabit"},
    }
    duration = {"fixed_iterations": {"count": 2, "interval_ms": 0}}
    stage = {"name": "step", "communicators": [communicator], "duration": duration}
    return {"devices": [{"name": "h0"}, {"name": "h1"}], "ccl": {"name": "demo", "stages": [stage]}}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The configuration with one value set; objects on the way are made."""
    document = copy.deepcopy(configuration())
    *steps, last = [int(one) if one.isdecimal() else one for one in re.findall(r"\w+", path)]
    place: Any = document
    for step in steps:
        place = place[step] if isinstance(step, int) else place.setdefault(step, {})
    place[last] = value
    return document


FIELDS: dict[str, Any] = {
    "ports": [{"name": "p"}],
    "lags": [{}],
    "layer1": [{}],
    "captures": [{}],
    "options": {},
    "events": {},
    "devices[0].ethernets": [{}],
    "devices[0].rocev2": {},
    "ccl.name": "other",
    "ccl.transport": "uet",
    "ccl.send_mode": "sync",
    "ccl.sync_rank_interval_ms": 1,
    "ccl.stage_mode": "llm",
    "ccl.llm_index": 2,
    "ccl.stage_loop_count": 2,
    "ccl.iteration_recording": RECORDING | {"max_record_count": 7},
    "ccl.iteration_recording.enable": True,
    "ccl.iteration_recording.jct_percent_threshold": 110,
    "ccl.iteration_recording.drop_percent_threshold": 1,
    "ccl.iteration_recording.reorder_percent_threshold": 1,
    "ccl.iteration_recording.l1_bus_bw_tx_time_percent_threshold": 1,
    "ccl.tail_latency_recording.enable": True,
    "ccl.tail_latency_recording.top_by": "drop_count",
    "ccl.tail_latency_recording.max_record_count": 51,
    "ccl.tail_latency_cdf.enable": True,
    f"{STAGE}.name": "other",
    f"{STAGE}.algorithm.choice": "halving_doubling",
    f"{STAGE}.algorithm.phase": "all_gather",
    f"{STAGE}.bg_flow_names": ["burst"],
    f"{STAGE}.duration.choice": "fixed_seconds",
    f"{STAGE}.duration.fixed_seconds": {"seconds": 1},
    f"{STAGE}.duration.fixed_iterations.count": 3,
    f"{STAGE}.duration.fixed_iterations.interval_ms": 1000,
    f"{COMMUNICATOR}.name": "other",
    f"{COMMUNICATOR}.device_names": ["h1", "h0"],
    f"{COMMUNICATOR}.algorithm.choice": "all_to_all_direct",
    f"{COMMUNICATOR}.algorithm.phase": "reduce_scatter",
    f"{COMMUNICATOR}.generation.data_size": "2",
    f"{COMMUNICATOR}.generation.data_size_unit": "gigabyte",
    f"{COMMUNICATOR}.generation.compute_gap.choice": "random",
    f"{COMMUNICATOR}.generation.compute_gap.fixed": {"ms": 200},
    f"{COMMUNICATOR}.generation.compute_gap.random": {"min_ms": 1},
    f"{COMMUNICATOR}.generation.qp_scheduling": {"choice": "continuous"},
    f"{COMMUNICATOR}.rocev2.encapsulation": "ipv6",
    f"{COMMUNICATOR}.rocev2.ib_mtu": 1024,
    f"{COMMUNICATOR}.rocev2.qps_per_peer": 4,
    f"{COMMUNICATOR}.rocev2.chunk_size_kb": 64,
    f"{CONNECTION}.choice": "unreliable_datagram",
    f"{CONNECTION}.unreliable_datagram": {},
    f"{CONNECTION}.reliable_connection.dscp": 46,
    f"{CONNECTION}.reliable_connection.ecn": "ect_0",
    f"{CONNECTION}.reliable_connection.start_qp_number": 17,
    f"{CONNECTION}.reliable_connection.start_udp_src_port": 50000,
}
"""Path → a value that asks for something. Source: `model`'s pull request, its `ccl/*.yaml`."""
