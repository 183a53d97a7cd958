"""What the kernel says about links."""

import struct

from emulator.device.lab.link_news import LinkNews, LinkNote, parse_links

UP, LOWER_UP, NEW_LINK, DEL_LINK = 0x1, 0x10000, 16, 17


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
