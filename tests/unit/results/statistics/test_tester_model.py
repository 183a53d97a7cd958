"""The tester's own share of a measurement, by hand-made samples and a hand-made ceiling."""

from pathlib import Path

import pytest
from rich.console import Console

from emulator.control.parameter import Parameter
from emulator.planner.group_layout import layout_of
from emulator.results.run_folder.manifest import HostFacts, read_manifest
from emulator.results.statistics import tester_model
from emulator.results.statistics.class_summary import ClassSummary
from emulator.results.statistics.samples.collectives import merge
from emulator.results.statistics.samples.transfers import bytes_in_flight
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.tester_model import InstanceLayouts, host_limit_warnings
from emulator.views.as_json import summary_to_json
from emulator.views.terminal.summary_table import render
from tests.support.runs import Row, collective, pair, table, write_run

RING = {"algorithm": "ring"}
CEILING = {"rates": [[500, 20e9], [50_000, 40e9]], "step_ns": 100}
"""20 bytes a nanosecond in steps of up to 500 bytes, twice that in large ones; and 100 ns a step."""


def _classes(folder: Path, samples: list[Row], **calibration: object) -> tuple[ClassSummary, ...]:
    return summarise(write_run(folder / "run", samples, calibration=calibration)).classes


def test_bytes_of_others_count_as_far_as_they_were_under_way() -> None:
    samples = [
        *collective((0, 0), (1000, 1000), bytes_sent=500, instance=0),
        *collective((0, 0), (1000, 1000), bytes_sent=500, instance=1),
        *collective((500, 500), (2500, 2500), bytes_sent=2000, instance=2),
    ]
    merged = merge(table(samples))
    sent = bytes_in_flight(table(samples), merged)
    # The first two move 1 a nanosecond each, the third 2; they have 500 ns in common.
    assert sent.tolist() == pytest.approx([3000, 3000, 5000])


def test_bytes_count_from_the_last_post_on() -> None:
    samples = [*collective((0, 900), (1000, 1000), bytes_sent=500, instance=0)]
    assert bytes_in_flight(table(samples), merge(table(samples))).tolist() == pytest.approx([1000])


@pytest.mark.parametrize(
    ("cct_ns", "percent", "is_limited"), [(300, 100.0, True), (333, 90.1, True), (600, 50.0, False)]
)
def test_steps_and_bytes_make_what_the_tester_needs_alone(
    tmp_path: Path, cct_ns: int, percent: float, is_limited: bool
) -> None:
    # A ring of two takes two steps, 200 ns; 2000 bytes take 100 ns.
    (row,) = _classes(tmp_path, collective((0, 0), (cct_ns, cct_ns), **RING), **CEILING)
    assert row.tester_percent == pytest.approx(percent, abs=0.1)
    assert row.is_tester_limited is is_limited


def test_a_pair_is_one_step(tmp_path: Path) -> None:
    samples = pair(0, 300, bytes_sent=1000, size_bytes=500)
    samples[1]["bytes_sent"] = 0
    (row,) = _classes(tmp_path, samples, **CEILING)
    assert row.tester_percent == pytest.approx((100 + 1000 / 20) / 300 * 100, rel=0.05)


def test_without_a_calibration_nothing_is_said(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", collective((0, 0), (300, 300), **RING))
    summary = summarise(run)
    assert summary.classes[0].tester_percent is None
    assert summary_to_json(summary)["classes"][0]["tester_limited"] is None
    assert "tester" not in _printed(run.folder)


def test_an_algorithm_that_is_not_here_and_an_empty_run_have_no_share(tmp_path: Path) -> None:
    (row,) = _classes(tmp_path, collective((0, 0), (300, 300), algorithm="somebodys_own"), **CEILING)
    assert row.tester_percent is None
    assert _classes(tmp_path / "empty", [], **CEILING) == ()


def test_the_table_and_json_mark_what_is_limited(tmp_path: Path) -> None:
    slow = collective((9000, 9000), (99000, 99000), instance=1, size_bytes=2000, **RING)
    run = write_run(tmp_path / "run", [*collective((0, 0), (300, 300), **RING), *slow], calibration=CEILING)
    assert read_manifest(run.folder / "manifest.json").calibration == CEILING
    text = _printed(run.folder)
    assert "300 ns!" in text
    assert "90 µs!" not in text
    assert "Tester-limited  all_reduce 2 ranks 1000 B: within 10 %" in text
    limited = {row["size_bytes"]: row["tester_limited"] for row in summary_to_json(summarise(run))["classes"]}
    assert limited == {1000: True, 2000: False}


def _printed(folder: Path) -> str:
    from emulator.results.run_folder.reader import read_run

    out = Console(width=160)
    with out.capture() as capture:
        out.print(render(summarise(read_run(folder))))
    return capture.get()


def test_steps_are_those_of_the_layout(tmp_path: Path) -> None:
    samples = collective((0,) * 4, (1000,) * 4, size_bytes=1000, bytes_sent=0, algorithm="hierarchical")
    for name, hosts, steps in (("two", [0, 0, 1, 1], 4), ("one", [0, 0, 0, 0], 2), ("four", [0, 1, 2, 3], 6)):
        run = write_run(tmp_path / name, samples, calibration=CEILING, topology={"host_index": hosts})
        assert summarise(run).classes[0].tester_percent == pytest.approx(steps * 100 / 1000 * 100)


def test_bytes_through_domains_cost_the_tester_nothing() -> None:
    one_host = collective((0, 0), (100, 100), bytes_sent=500, instance=0)
    between = [row | {"rank": 2 * row["rank"]} for row in collective((200, 200), (300, 300), instance=1)]
    samples = table([*one_host, *between])  # 1,000 bytes on one host, 2,000 between two, of which 1,000 stay inside
    merged = merge(samples, [0, 0, 1])
    model = tester_model.TesterModel([(1, 1e9)], 0.0)
    assert tester_model.TesterShare.of(model, samples, merged).machine_bytes.tolist() == pytest.approx([1000, 2000])
    share = tester_model.TesterShare.of(model, samples, merged, domain_share=2 / 3)
    assert share.machine_bytes.tolist() == pytest.approx([0, 1000])


def test_flows_beside_the_job_cost_the_tester_throughput() -> None:
    samples = table(collective((0, 0), (300, 300), **RING))
    model, merged = tester_model.TesterModel([(500, 1e9)], 10.0), merge(samples)
    alone = tester_model.TesterShare.of(model, samples, merged).machine_bytes
    shared = tester_model.TesterShare.of(model, samples, merged, beside_bytes_per_s=2e9).machine_bytes
    assert (shared - alone).tolist() == pytest.approx([600])


def test_the_manifest_says_where_members_were() -> None:
    samples = table([*collective([0] * 4, [9] * 4, instance=0), *collective([0] * 2, [9] * 2, instance=1)])
    places = {"host_index": [0, 0, 1, 1], "interface_index": [0, 1, 0, 1]}
    assert InstanceLayouts(samples, places).of(0) is layout_of("aabb", [0, 1, 0, 1])
    assert InstanceLayouts(samples, places).of(1) is layout_of("aa", [0, 1])
    assert InstanceLayouts(samples, {"host_index": [0, 0, 1, 1], "interface_index": []}).of(1) is layout_of(
        "aa", [0, 0]
    )
    assert InstanceLayouts(samples, {}).of(0) is None


ASKED = 16 << 20


def host(**facts: int) -> HostFacts:
    """An agent whose buffers are as large as asked for, but for what is given."""
    told = {f"{way}_buffer_{what}": ASKED for way in ("receive", "send") for what in ("asked", "granted")}
    told |= {name.replace("dropped_", "dropped."): value for name, value in facts.items()}
    return HostFacts("a", transport={name: Parameter(value, "bytes") for name, value in told.items()})


def test_a_host_that_grants_all_is_no_warning() -> None:
    assert host_limit_warnings([host(), HostFacts("b")]) == {}


def test_a_cut_buffer_is_told_once_with_the_sysctl_that_raises_it() -> None:
    met = host_limit_warnings([host(receive_buffer_granted=4 << 20), host(receive_buffer_granted=208 << 10)])
    said = "the kernel granted 208 KiB of 16 MiB for a receive buffer: sysctl -w net.core.rmem_max=16777216"
    assert met == {said: 1}
    (sending,) = host_limit_warnings([host(send_buffer_granted=1)])
    assert "send buffer: sysctl -w net.core.wmem_max=16777216" in sending


def test_dropped_datagrams_are_counted_over_all_agents() -> None:
    met = host_limit_warnings([host(dropped_queue=3), host(dropped_queue=4, dropped_send=1)])
    assert list(met.values()) == [7, 1]
    received, sent = met
    assert "a receive buffer was full" in received
    assert "--window-bytes" in received, "the buffer is as large as asked for: a sysctl would change nothing"
    assert "refused to send" in sent


def test_where_the_buffer_was_cut_the_sysctl_is_what_helps() -> None:
    met = host_limit_warnings([host(dropped_queue=3, receive_buffer_granted=1 << 20)])
    assert all("sysctl -w net.core.rmem_max=16777216" in warning for warning in met)
    assert sorted(met.values()) == [1, 3]


def test_queue_pairs_that_share_source_ports_are_counted() -> None:
    (said,) = host_limit_warnings([host(ports_shared=3), host(ports_shared=4), host(ports_shared=0)]).items()
    assert said == (
        "a queue pair had to share a source port because open files ran out: raise `ulimit -n`, or use more --agents",
        7,
    )


def test_packets_of_strangers_are_counted() -> None:
    met = host_limit_warnings([host(dropped_stranger=3), host(dropped_stranger=4, dropped_length=1)])
    advice = "find out who else sends to the addresses of the ranks"
    assert met == {
        f"packets came from senders that are not of the run: {advice}": 7,
        f"packets came that are too short for RoCEv2: {advice}": 1,
    }
