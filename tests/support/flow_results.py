"""A run with flows alongside its job."""

from dataclasses import asdict
from pathlib import Path

from emulator.flows.perftest_parameters import TestVerb, make_test
from emulator.flows.perftest_results import BandwidthReport, PeerResult, Received, Sent
from emulator.host.parquet import write_parquet
from emulator.results.run_folder.flow_results import FlowResult
from emulator.results.run_folder.reader import Run
from emulator.results.run_folder.schema import RunTable, to_batch
from tests.support.runs import collective, write_run

_SENT = FlowResult(
    flow=0, kind="perftest", host="h0", peer="nic", role="client", verb="write", size_bytes=65536, direction="sent",
    observer="charkha", is_complete=True, messages=9, bytes=9 * 65536, start_ns=5, duration_ns=1000, bytes_per_s=1e9,
    packets=20, retransmits=3, timeouts=0, naks=1, rnr_naks=0,
)  # fmt: skip
_REPORTED = FlowResult(
    flow=1, kind="perftest", host="h1", peer="nic", role="server", verb="read", size_bytes=64, direction="served",
    observer="peer", is_complete=True, messages=8, bytes=512, bytes_per_s=2e9,
)  # fmt: skip
_LATENCY = FlowResult(
    flow=2, kind="perftest", host="h1", peer="nic", role="client", verb="read-lat", size_bytes=2, direction="read",
    observer="charkha", is_complete=False, messages=7, bytes=14, latency_median_ns=12_000.0, latency_p99_ns=13_000.0,
)  # fmt: skip
RESULTS = (_SENT, _REPORTED, _LATENCY)


def write_flow_results(folder: Path) -> Run:
    """A closed run folder with these flows."""
    run = write_run(folder, collective([0, 0], [9, 9]))
    rows = [asdict(result) for result in RESULTS]
    batch = to_batch(
        RunTable.FLOW_RESULTS.schema, {name: [row[name] for row in rows] for name in rows[0] if name != "gaps"}
    )
    write_parquet(folder / RunTable.FLOW_RESULTS.file_name, RunTable.FLOW_RESULTS.schema, iter([batch]))
    return run


def of_client(
    verb: TestVerb, *, sent: Sent | None = None, received: Received | None = None, **more: BandwidthReport | None
) -> PeerResult:
    """What the client of a test with a peer has found."""
    return PeerResult(
        test=make_test(verb),
        role="client",
        host="192.0.2.1",
        peer_host="192.0.2.2",
        peer_version="6.06",
        sent=sent or Sent(),
        received=received or Received(),
        **more,  # type: ignore[arg-type]
    )
