"""What the kernel cut or dropped is a warning that names the way out."""

from __future__ import annotations

from emulator.control.parameter import Parameter
from emulator.results.run_folder.manifest import HostFacts
from emulator.results.statistics.tester.host_limits import host_limit_warnings

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
