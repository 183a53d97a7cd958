"""Rules as the commands that apply and undo them, as somebody has read and approved them.

nft 1.0.6 accepts every script; tests/lab checks the effect on frames.
"""

from pathlib import Path

from emulator.device.profile.nftables import clean_text, parse_counters
from tests.support.approved import approved
from tests.support.profiles import changes

ON_FRAMES = (
    ("bridge", "{drop: {share: 0.5%}, opcode: middle}"),
    ("bridge", "{drop: {once: true}, psn: 7}"),
    ("bridge", "{drop: {once: true}, psn: 100-120}"),
    ("bridge", "{drop: {share: 100%}}"),  # no random numbers
    ("bridge", "{drop: {every: 1}}"),
    ("bridge", '{drop: {every: 2}, source: "2001:db8::/64"}'),
    ("bridge", "{drop: {every: 2}, opcode: [ack, nak]}"),
    ("bridge", "{drop: {every: 1}, opcode: [0x11, nak]}"),  # the plain opcode includes the syndrome
    ("bridge", '{drop: {every: 1}, port: ["sw0:p0", "sw0:p1"]}'),  # one line for several devices
    ("bridge", "{mark: {above: 95%, burst: 16K}}"),
    ("bridge", '{police: {rate: 40Mbit, burst: 8K}, traffic: any, port: "sw0:p1"}'),
    (
        "router",
        (
            "{drop: {every: 7}, opcode: [nak, cnp], source: 198.18.1.1, destination: 198.18.2.0/24,"
            ' source_port: 49152, queue_pair: 17, port: "sw0:p1", arriving: "sw0:p0"}'
        ),
    ),
    ("ovs", "{drop: {every: 50}, opcode: cnp}"),
    *((kind, '{duplicate: {share: 1%}, port: "sw0:p1"}') for kind in ("bridge", "router", "ovs")),
)


def test_commands_of_rules_on_frames_are_what_was_approved(tmp_path: Path) -> None:
    lines = []
    for kind, rule in ON_FRAMES:
        (change,) = changes(tmp_path, rule, kind=kind)
        lines += [f"== {kind}: {rule}", *change.start[0].lines, "-- undone by", *change.stop[0].lines]
        lines += [f"-- counted by {change.counter}", ""]
    approved("nftables", "\n".join(lines))


def test_tables_are_removed_whether_they_exist_or_not() -> None:
    assert clean_text(["bridge"]) == "add table bridge charkha\ndelete table bridge charkha\n"


def test_counters_are_read_from_the_output_of_nft() -> None:
    printed = """{"nftables": [
        {"metainfo": {"version": "1.0.6"}},
        {"counter": {"family": "bridge", "name": "rule_0", "table": "charkha", "packets": 7, "bytes": 900}},
        {"counter": {"family": "netdev", "name": "rule_0", "table": "charkha", "packets": 0, "bytes": 0}}]}"""
    assert parse_counters(printed) == {("bridge", "rule_0"): 7, ("netdev", "rule_0"): 0}
    assert parse_counters(b'{"nftables": []}') == {}
