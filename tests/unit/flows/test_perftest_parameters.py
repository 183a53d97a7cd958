"""Options of a test with a perftest at the other end."""

from typing import Any

import pytest

from emulator.errors import InputError
from emulator.flows.perftest_parameters import TestVerb, make_test


@pytest.mark.parametrize(
    ("verb", "size", "iterations", "tool"),
    [
        ("write", 65536, 5000, "ib_write_bw"),
        ("send", 65536, 1000, "ib_send_bw"),
        ("read", 65536, 1000, "ib_read_bw"),
        ("write-lat", 2, 1000, "ib_write_lat"),
        ("send-lat", 2, 1000, "ib_send_lat"),
        ("read-lat", 2, 1000, "ib_read_lat"),
    ],
)
def test_defaults_are_those_of_perftest(verb: str, size: int, iterations: int, tool: str) -> None:
    test = make_test(TestVerb(verb))
    assert (test.size_bytes, test.iterations, test.queue_pairs, test.path_mtu) == (size, iterations, 1, 4096)
    assert test.command() == f"{tool} --size={size} --mtu=4096 --iters={iterations}"


def test_the_command_for_the_other_end_has_every_option() -> None:
    test = make_test(TestVerb.SEND, size_bytes=100, duration_s=2.5, queue_pairs=8, path_mtu=1024, is_bidirectional=True)
    expected = "ib_send_bw --size=100 --mtu=1024 --duration=2.5 --qp=8 --bidirectional 192.0.2.9"
    assert test.command("192.0.2.9") == expected


@pytest.mark.parametrize(
    ("verb", "options", "named"),
    [
        ("write", {"size_bytes": 0}, "--size 0"),
        ("write", {"size_bytes": (1 << 31) + 1}, "--size"),
        ("write", {"iterations": 0}, "--iters 0"),
        ("send-lat", {"iterations": 1}, "--iters 1: 2 to"),
        ("write", {"iterations": 5, "duration_s": 1.0}, "give one of them"),
        ("write", {"duration_s": 0.0}, "--duration 0"),
        ("write", {"path_mtu": 1500}, "--path-mtu 1500: choose from 256, 512"),
        ("write", {"queue_pairs": 0}, "--qps 0"),
        ("write", {"queue_pairs": 2000}, "--qps 2000"),
        ("send-lat", {"queue_pairs": 2}, "as ib_send_lat has"),
        ("read-lat", {"is_bidirectional": True}, "--bidirectional"),
    ],
)
def test_options_that_do_not_fit_are_named(verb: str, options: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        make_test(TestVerb(verb), **options)
