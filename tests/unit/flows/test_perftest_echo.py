"""The messages of rping and rdma_client, and what their tests can be told."""

import re

import pytest

from emulator.errors import InputError, RemoteProtocolError
from emulator.flows.perftest_echo import (
    Advertisement,
    EchoResult,
    EchoTask,
    EchoTest,
    Exchange,
    check_data,
    make_echo,
    ping_data,
)
from emulator.roce.options import RoceOptions


def test_an_advertisement_has_address_key_and_length_in_network_byte_order() -> None:
    data = bytes.fromhex("000055f8641058c0 00000553 00000064")  # 100 bytes at 0x55f8641058c0 under key 0x553
    assert Advertisement.unpack(data) == Advertisement(0x55F8641058C0, 0x553, 100)
    assert Advertisement(0x55F8641058C0, 0x553, 100).pack() == data


@pytest.mark.parametrize("size", [0, 15, 17, 64])
def test_a_send_of_another_length_is_not_rping(size: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"sent {size} bytes where rping sends 16: does it run rping"):
        Advertisement.unpack(bytes(size))


@pytest.mark.parametrize(
    ("number", "size", "data"),
    [
        (0, 26, b"rdma-ping-0: ABCDEFGHIJKL\0"),
        (1, 26, b"rdma-ping-1: BCDEFGHIJKLM\0"),
        (57, 26, b"rdma-ping-57: zABCDEFGHIJ\0"),  # z is the last letter, A follows
        (58, 26, b"rdma-ping-58: ABCDEFGHIJK\0"),
        (1000, 26, b"rdma-ping-1000: OPQRSTUVW\0"),  # 1000 = 17 · 58 + 14
    ],
)
def test_the_data_of_a_round_is_its_number_and_letters(number: int, size: int, data: bytes) -> None:
    assert ping_data(number, size) == data


def test_all_letters_between_a_capital_a_and_a_small_z_take_turns() -> None:
    data = ping_data(0, 13 + 58 + 2)
    assert data[13:-1] == bytes(range(65, 123)) + b"A"


@pytest.mark.parametrize(("data", "place"), [(b"abcx", 3), (b"Xbcd", 0), (b"abc", 3), (b"abcde", 4), (b"", 0)])
def test_data_that_differs_is_named_with_its_place(data: bytes, place: int) -> None:
    check_data(b"abcd", b"abcd", number=0, host="192.0.2.7")
    with pytest.raises(RemoteProtocolError, match=rf"round 5 from 192\.0\.2\.7 differs from byte {place} on"):
        check_data(data, b"abcd", number=4, host="192.0.2.7")


def make(exchange: Exchange = Exchange.RPING, *, is_client: bool = True, **options: int) -> EchoTest:
    return make_echo(
        exchange,
        size_bytes=options.get("size"),
        rounds=options.get("rounds"),
        path_mtu=options.get("path_mtu"),
        is_client=is_client,
    )


def test_a_test_has_the_size_of_rping_and_an_end_at_its_client() -> None:
    assert (make().size_bytes, make().rounds, make().path_mtu) == (64, 1000, 1024)
    assert make(is_client=False).rounds == 0


@pytest.mark.parametrize(
    ("exchange", "options", "problem"),
    [
        (Exchange.RPING, {"size": 25}, "--size 25: rping takes 26 to 65535 bytes"),
        (Exchange.RPING, {"size": 65_536}, "--size 65536: rping takes"),
        (Exchange.RPING, {"rounds": 0}, "--iters 0: 1 to 2147483647"),
        (Exchange.RPING, {"path_mtu": 1500}, "--path-mtu 1500: choose from 256, 512"),
        (Exchange.RDMA_CLIENT, {"size": 64}, "rdma_client sends 16 bytes once; omit --size and --iters"),
        (Exchange.RDMA_CLIENT, {"rounds": 2}, "rdma_client sends 16 bytes once"),
    ],
)
def test_what_the_tool_does_not_do_is_refused(exchange: Exchange, options: dict[str, int], problem: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)):
        make(exchange, **options)


@pytest.mark.parametrize(("size", "rounds"), [(26, 1), (65_535, 2_147_483_647)])
def test_the_limits_of_rping_are_allowed(size: int, rounds: int) -> None:
    assert (make(size=size, rounds=rounds).size_bytes, make(size=size, rounds=rounds).rounds) == (size, rounds)


@pytest.mark.parametrize(
    ("exchange", "server", "command"),
    [
        (Exchange.RPING, "192.0.2.7", "rping -s -a 192.0.2.7 -p 7174 -S 64 -V"),
        (Exchange.RPING, None, "rping -c -a THIS-HOST -p 7174 -S 64 -V"),
        (Exchange.RDMA_CLIENT, "192.0.2.7", "rdma_server -p 7471"),
        (Exchange.RDMA_CLIENT, None, "rdma_client -s THIS-HOST -p 7471"),
    ],
)
def test_the_other_end_is_told_its_command(exchange: Exchange, server: str | None, command: str) -> None:
    test = make(exchange, is_client=server is not None)
    task = EchoTask(test=test, server=server, port=exchange.default_port, options=RoceOptions())
    assert task.peer_command == command


def test_a_client_that_a_server_expects_to_play_some_rounds_is_told_so() -> None:
    assert make(rounds=7, is_client=False).command("192.0.2.1", port=9, is_client=True).endswith("-S 64 -C 7 -V")


def test_results_have_units_and_no_round_trips_at_a_server() -> None:
    client = EchoResult(
        test=make(), role="client", host="192.0.2.1", peer_host="192.0.2.7", path_mtu=512, rounds=3,
        round_trips_ns=(1000, 2000, 6000), packets=6,
    )  # fmt: skip
    facts = client.to_json()
    assert facts["test"] == {"exchange": "rping", "size_bytes": 64, "path_mtu_bytes": 512}
    assert facts["round_trip_ns"] == {"samples": 3, "min": 1000, "median": 2000, "p99": 5920, "max": 6000}
    server = EchoResult(test=make(), role="server", host="a", peer_host="b", path_mtu=512, rounds=3)
    assert server.to_json()["round_trip_ns"] is None
