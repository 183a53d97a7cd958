"""Rules as nft scripts. nft 1.0.6 accepts every case; tests/lab checks the effect on frames."""

from pathlib import Path
from textwrap import dedent

import pytest

from emulator.device.profile.changes import plan_changes
from emulator.device.profile.nftables import clean_text, parse_counters
from emulator.device.profile.profile import Schedule
from tests.support.profiles import profile_of, two_hosts


def install(folder: Path, rule: str, *, kind: str = "bridge") -> str:
    (change,) = plan_changes(
        Schedule(profile_of(folder, f"  - {rule}\n")), two_hosts(folder, kind=kind), ["sw0"], frame_bytes=1250
    )
    return "\n".join(change.start[0].lines).expandtabs(4)


def expected(text: str) -> str:
    return dedent(text).strip()


def test_a_bridge_drops_a_share_of_an_opcode_class_in_its_forward_hook(tmp_path: Path) -> None:
    assert install(tmp_path, "{drop: {share: 0.5%}, opcode: middle}") == expected("""
        table bridge charkha {
            counter rule_0 {
            }
            chain rule_0 {
                type filter hook forward priority 0; policy accept;
                udp dport 4791 @th,64,8 { 0x01, 0x07, 0x0e, 0x21, 0x27 } numgen random mod 1000000 < 5000 counter name rule_0 drop
            }
        }
    """)  # noqa: E501


def test_lines_of_several_matches_jump_to_one_chain(tmp_path: Path) -> None:
    rule = "{drop: {every: 7}, opcode: [nak, cnp], source: 198.18.1.1, destination: 198.18.2.0/24, source_port: 49152,"
    text = install(tmp_path, f'{rule} queue_pair: 17, port: "sw0:p1", arriving: "sw0:p0"}}', kind="router")
    flow = "ip saddr 198.18.1.1 ip daddr 198.18.2.0/24 udp dport 4791 udp sport 49152 @th,104,24 0x11"
    assert text == expected(f"""
        table inet charkha {{
            counter rule_0 {{
            }}
            chain rule_0_select {{
                numgen inc mod 7 == 0 counter name rule_0 drop
            }}
            chain rule_0 {{
                type filter hook forward priority 0; policy accept;
                iifname "p0" oifname "p1" {flow} @th,64,8 0x81 jump rule_0_select
                iifname "p0" oifname "p1" {flow} @th,64,8 0x11 @th,160,3 0x3 jump rule_0_select
            }}
        }}
    """)


@pytest.mark.parametrize(("psn", "value"), [("7", "0x7"), ("100-120", "0x64-0x78")])
def test_one_packet_is_lost_by_psn_and_its_retransmission_passes(tmp_path: Path, psn: str, value: str) -> None:
    assert install(tmp_path, f"{{drop: {{once: true}}, psn: {psn}}}") == expected(f"""
        table bridge charkha {{
            counter rule_0 {{
            }}
            chain rule_0 {{
                type filter hook forward priority 0; policy accept;
                udp dport 4791 @th,136,24 {value} numgen inc mod 4294967295 == 0 counter name rule_0 drop
            }}
        }}
    """)


def test_ecn_capable_frames_above_the_rate_of_a_port_are_marked(tmp_path: Path) -> None:
    assert install(tmp_path, "{mark: {above: 95%, burst: 16K}}") == expected("""
        table bridge charkha {
            counter rule_0 {
            }
            chain rule_0_mark {
                ip ecn { ect0, ect1 } counter name rule_0 ip ecn set ce
                ip6 ecn { ect0, ect1 } counter name rule_0 ip6 ecn set ce
            }
            chain rule_0 {
                type filter hook forward priority 0; policy accept;
                oifname "p0" udp dport 4791 meta length > 606 limit rate over 570000/minute burst 13 packets jump rule_0_mark
                oifname "p1" udp dport 4791 meta length > 606 limit rate over 570000/minute burst 13 packets jump rule_0_mark
            }
        }
    """)  # noqa: E501


def test_a_policer_can_apply_to_any_traffic_of_a_port(tmp_path: Path) -> None:
    text = install(tmp_path, '{police: {rate: 40Mbit, burst: 8K}, traffic: any, port: "sw0:p1"}')
    line = 'oifname "p1" meta length > 606 limit rate over 240000/minute burst 6 packets counter name rule_0 drop'
    assert line in text
    assert "udp" not in text


def test_open_vswitch_applies_rules_at_egress(tmp_path: Path) -> None:
    assert install(tmp_path, "{drop: {every: 50}, opcode: cnp}", kind="ovs") == expected("""
        table netdev charkha {
            counter rule_0 {
            }
            chain rule_0_1 {
                type filter hook egress device "p1" priority 0; policy accept;
                udp dport 4791 @th,64,8 0x81 numgen inc mod 50 == 0 counter name rule_0 fwd to "lo"
            }
            chain rule_0_0 {
                type filter hook egress device "p0" priority 0; policy accept;
                udp dport 4791 @th,64,8 0x81 numgen inc mod 50 == 0 counter name rule_0 fwd to "lo"
            }
        }
    """)


@pytest.mark.parametrize("kind", ["bridge", "router", "ovs"])
def test_copies_leave_through_the_port_of_the_frame(tmp_path: Path, kind: str) -> None:
    text = install(tmp_path, '{duplicate: {share: 1%}, port: "sw0:p1"}', kind=kind)
    picked = "meta mark != 0xc4a2 numgen random mod 1000000 < 10000 counter name rule_0"
    assert f'{picked} meta mark set 0xc4a2 dup to "p1"' in text
    assert 'hook egress device "p1"' in text


def test_rules_for_all_frames_use_no_random_numbers(tmp_path: Path) -> None:
    assert "udp dport 4791 counter name rule_0 drop" in install(tmp_path, "{drop: {share: 100%}}")
    assert "udp dport 4791 counter name rule_0 drop" in install(tmp_path, "{drop: {every: 1}}")


def test_addresses_of_ipv6(tmp_path: Path) -> None:
    assert "ip6 saddr 2001:db8::/64 udp dport 4791" in install(tmp_path, '{drop: {every: 2}, source: "2001:db8::/64"}')


def test_removing_a_rule_removes_its_chains_and_keeps_its_counter(tmp_path: Path) -> None:
    rule = profile_of(tmp_path, "  - {drop: {every: 2}, opcode: [ack, nak]}\n")
    (change,) = plan_changes(Schedule(rule), two_hosts(tmp_path), ["sw0"], frame_bytes=1250)
    names = ("rule_0", "rule_0_select")
    flushed = [f"flush chain bridge charkha {name}" for name in names]
    assert list(change.stop[0].lines) == [*flushed, *(f"delete chain bridge charkha {name}" for name in names)]
    assert change.counter == ("bridge", "rule_0")


def test_tables_are_removed_whether_they_exist_or_not() -> None:
    assert clean_text(["bridge"]) == "add table bridge charkha\ndelete table bridge charkha\n"


def test_counters_are_read_from_the_output_of_nft() -> None:
    printed = """{"nftables": [
        {"metainfo": {"version": "1.0.6"}},
        {"counter": {"family": "bridge", "name": "rule_0", "table": "charkha", "packets": 7, "bytes": 900}},
        {"counter": {"family": "netdev", "name": "rule_0", "table": "charkha", "packets": 0, "bytes": 0}}]}"""
    assert parse_counters(printed) == {("bridge", "rule_0"): 7, ("netdev", "rule_0"): 0}
    assert parse_counters(b'{"nftables": []}') == {}


def test_frames_of_several_devices_are_matched_in_one_line(tmp_path: Path) -> None:
    text = install(tmp_path, '{drop: {every: 1}, port: ["sw0:p0", "sw0:p1"]}')
    assert 'oifname { "p0", "p1" } udp dport 4791 counter' in text


def test_a_syndrome_that_the_plain_opcodes_include_is_not_matched_again(tmp_path: Path) -> None:
    text = install(tmp_path, "{drop: {every: 1}, opcode: [0x11, nak]}")
    assert "@th,64,8 0x11 counter" in text
    assert "@th,160,3" not in text
