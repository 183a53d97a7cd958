"""What the kernel says about links and queueing disciplines."""

import struct
import sys

import pytest

from emulator.device.lab.link_news import (
    LinkNews,
    LinkNote,
    QdiscNote,
    RouteNote,
    parse_links,
    parse_qdiscs,
    parse_routes,
)

UP, LOWER_UP, NEW_LINK, DEL_LINK, NEW_ROUTE, DEL_ROUTE = 0x1, 0x10000, 16, 17, 24, 25
BY_KERNEL, BOOT = 2, 3


def message(name: bytes, flags: int, *, kind: int = NEW_LINK) -> bytes:
    """A message of rtnetlink about a link, with an attribute before its name."""
    attributes = struct.pack("=HHI", 8, 4, 1500) + struct.pack("=HH", 5 + len(name), 3) + name + b"\0"
    attributes += b"\0" * (-len(attributes) % 4)
    body = struct.pack("=BxHiII", 0, 1, 7, flags, 0) + attributes
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def test_a_link_is_up_if_both_ends_of_its_cable_are() -> None:
    content = (
        message(b"p1", UP | LOWER_UP) + message(b"p22", UP) + message(b"p3", 0) + message(b"p4", UP, kind=DEL_LINK)
    )
    assert list(parse_links(content)) == [("p1", True), ("p22", False), ("p3", False)]


NEW_TBF = bytes.fromhex(
    "34000000 2400 0000 11000000 29100000"  # nlmsghdr: 52 bytes, RTM_NEWQDISC, no flags, sequence, sender
    "00 000000 07000000 00000180 ffffffff 02000000"  # tcmsg: family, padding, interface 7, 8001:, root, info
    "0800 0100 74626600"  # TCA_KIND: tbf
    "0500 0c00 00 000000"  # TCA_HW_OFFLOAD: 0, and padding
)  # fmt: skip
DEL_TBF = NEW_TBF[:4] + b"\x25\x00" + NEW_TBF[6:20] + b"\x09\x00\x00\x00" + NEW_TBF[24:]
CLASS = NEW_TBF[:4] + b"\x28\x00" + NEW_TBF[6:]
"""On a little-endian host."""


@pytest.mark.skipif(sys.byteorder == "big", reason="the bytes are those of a little-endian host")
def test_a_message_about_a_queueing_discipline_names_the_interface() -> None:
    content = NEW_TBF + message(b"p1", UP) + CLASS + DEL_TBF
    assert list(parse_qdiscs(content)) == [7, 9]
    assert [name for name, _ in parse_links(content)] == ["p1"]
    assert list(parse_qdiscs(NEW_TBF + DEL_TBF[:30])) == [7]


def test_the_first_news_of_a_queueing_discipline_after_a_time_counts() -> None:
    news = LinkNews([])
    news._qdiscs += [QdiscNote(5, "sw0", "p1"), QdiscNote(7, "sw0", "p2"), QdiscNote(8, "sw0", "p1")]
    assert news.qdisc_changed("sw0", "p1", after_ns=6) == 8
    assert news.qdisc_changed("sw0", "p1", after_ns=9) is None
    assert news.qdisc_changed("sw1", "p2", after_ns=0) is None


@pytest.mark.skipif(sys.byteorder == "big", reason="the bytes are those of a little-endian host")
def test_of_a_flood_of_news_the_first_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.device.lab.link_news.MOST_NOTES", 10)
    news = LinkNews([])
    news._names = {("sw0", 7): "p1"}
    for now_ns in range(100):
        news._note(now_ns, "sw0", NEW_TBF + message(b"p1", UP) + DEL_TBF)
    assert [one.time_ns for one in news._notes] == [one.time_ns for one in news._qdiscs] == list(range(10))
    assert news.qdisc_changed("sw0", "p1", after_ns=9) == 9
    assert news.qdisc_changed("sw0", "p1", after_ns=10) is None


def test_what_is_cut_off_is_left_out() -> None:
    content = message(b"p1", UP | LOWER_UP)
    assert list(parse_links(content + message(b"p2", 0)[:20])) == [("p1", True)]
    assert list(parse_links(b"\0" * 64)) == []


def test_the_first_news_of_a_link_after_a_time_counts() -> None:
    news = LinkNews([])
    news._notes += [LinkNote(5, "sw0", "p1", False), LinkNote(7, "sw0", "p1", True), LinkNote(9, "sw0", "p1", False)]
    assert news.first("sw0", "p1", is_up=False, after_ns=6) == 9
    assert news.first("sw0", "p1", is_up=True, after_ns=6) == 7
    assert news.first("sw1", "p1", is_up=True, after_ns=0) is None
    assert news.set("sw0", ["p1"], is_up=False) is None
    with news:  # without switches it has nothing to listen to
        assert news.first("sw0", "p1", is_up=False, after_ns=10) is None


def route(*attributes: bytes, by: int = BOOT, kind: int = NEW_ROUTE) -> bytes:
    """A message of rtnetlink about a route, with its destination first."""
    body = struct.pack("=BBBBBBBBI", 2, 24, 0, 0, 254, by, 0, 1, 0) + struct.pack("=HH4s", 8, 1, bytes(4))
    body += b"".join(attributes)
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def through(index: int) -> bytes:
    return struct.pack("=HHI", 8, 4, index)


def test_routes_that_the_kernel_did_not_make_by_itself_are_heard() -> None:
    hops = [struct.pack("=HBBI", 16, 0, 0, index) + struct.pack("=HH4s", 8, 5, bytes(4)) for index in (8, 9)]
    several = struct.pack("=HH", 4 + sum(map(len, hops)), 9) + b"".join(hops)
    content = route(through(7)) + route(through(5), by=BY_KERNEL) + route(through(6), kind=DEL_ROUTE) + route(several)
    assert list(parse_routes(content)) == [7, 8, 9]
    assert list(parse_routes(route(struct.pack("=HHH", 6, 4, 1))[:30])) == []


def test_routes_are_back_with_the_last_one_before_the_link_goes_down_again() -> None:
    news = LinkNews([])
    news._notes += [LinkNote(5, "sw0", "p1", False), LinkNote(20, "sw0", "p1", True), LinkNote(40, "sw0", "p1", False)]
    news._routes += [RouteNote(at, "sw0", "p1") for at in (1, 22, 25, 45)] + [RouteNote(30, "sw0", "p2")]
    assert news.routes_back("sw0", "p1", 19) == 25
    assert news.routes_back("sw0", "p1", 41) == 45
    assert news.routes_back("sw1", "p1", 0) is None
