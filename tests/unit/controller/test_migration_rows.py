"""When traffic moved to other paths, as rows of events.parquet, and what tables make of them."""

from dataclasses import replace

from emulator.control.conversation import Farewell
from emulator.control.observations import Migration
from emulator.controller.clock_offset import ClockEstimate, Offset
from emulator.controller.recording.farewell_rows import migration_rows
from emulator.controller.run_plan import AgentFacts, RunOutcome
from emulator.results.run_folder.schema import EVENTS_SCHEMA, to_batch
from emulator.results.statistics.events import device_events
from emulator.topology.model import Host, Topology
from emulator.topology.network import Interface

PORTS = (Interface("eth0"), Interface("eth1"))
TOPOLOGY = Topology(
    "t",
    (Host("h0", interfaces=PORTS), Host("h1", interfaces=PORTS)),
    (0, 1),
    ("192.0.2.1", "192.0.2.2"),
    interface_index=(0, 1),
    alternates=("192.0.2.3", "192.0.2.4"),
)
AWAY = Migration(0, 1, 17, 5_000, is_back=False)


def outcome(**moved: list[Migration]) -> RunOutcome:
    found = RunOutcome()
    for name, migrations_ in moved.items():
        found.agents[name] = AgentFacts(name, farewell=Farewell([], 0, 0, migrations=migrations_))
    return found


def test_a_row_has_the_port_that_traffic_left_and_where_it_went() -> None:
    of = outcome(a=[AWAY, replace(AWAY, at_ns=9_000, is_back=True)], b=[Migration(1, 0, 16, 6_000, is_back=False)])
    of.clocks = {"b": ClockEstimate((Offset(0, 1_000, 40),), 40)}
    table = to_batch(EVENTS_SCHEMA, migration_rows(of, TOPOLOGY))
    assert table.to_pylist() == [
        {
            "name": name,
            "edge": edge,
            "what": what,
            "device": device,
            "interface": interface,
            "stops_traffic": False,
            "planned_ns": None,
            "time_ns": time_ns,
            "uncertainty_ns": error_ns,
            "seen_by": "agent",
            "routes_ns": None,
            "exit_code": None,
        }
        for name, edge, what, device, interface, time_ns, error_ns in (
            ("rank 0 to rank 1 (queue pair 17)", "begin", "migration to eth1", "h0", "eth0", 5_000, 0),
            ("rank 1 to rank 0 (queue pair 16)", "begin", "migration to eth0", "h1", "eth1", 5_000, 40),
            ("rank 0 to rank 1 (queue pair 17)", "end", "migration back to eth0", "h0", "eth1", 9_000, 0),
        )
    ]
    assert device_events(table) == []


def test_a_run_in_which_nothing_moved_has_no_rows() -> None:
    assert migration_rows(outcome(a=[]), TOPOLOGY) == {}
