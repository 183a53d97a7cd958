"""Topologies of other tools as a topology file."""

from emulator.annexes.topologies.imported import ImportedTopology


def test_ends_at_hosts_become_interfaces_with_the_next_free_address() -> None:
    imported = ImportedTopology("lab", hosts={"a": {"eth1": "198.18.0.2"}, "b": {}}, switches={"s": "router"})
    imported.add_link(("a:eth0", "s:1"), {"rate": "1Gbit", "mtu": None})
    imported.add_link(("s:2", "b:eth0"), {})
    imported.add_link(("a:eth1", "b:eth1"), {"latency": "5us"})
    assert imported.as_topology_file() == {
        "name": "lab",
        "hosts": [
            {
                "name": "a",
                "interfaces": [
                    {"name": "eth1", "address": "198.18.0.2"},
                    {"name": "eth0", "address": "198.18.0.1"},
                ],
            },
            {
                "name": "b",
                "interfaces": [
                    {"name": "eth0", "address": "198.18.0.3"},
                    {"name": "eth1", "address": "198.18.0.4"},
                ],
            },
        ],
        "switches": [{"name": "s", "kind": "router"}],
        "links": [
            {"endpoints": ["a:eth0", "s:1"], "rate": "1Gbit"},
            {"endpoints": ["s:2", "b:eth0"]},
            {"endpoints": ["a:eth1", "b:eth1"], "latency": "5us"},
        ],
    }
    assert imported.notes == []


def test_hosts_without_a_link_are_left_out_with_a_note_in_the_order_of_the_file() -> None:
    imported = ImportedTopology("lab", hosts={"z": {}, "b": {"e": None}, "a": {}}, slots={"b": 3, "z": 1})
    found = imported.as_topology_file()
    assert found["hosts"] == [
        {"name": "b", "interfaces": [{"name": "e", "address": "198.18.0.1"}], "slots": 3},
    ]
    assert imported.notes == ["host z has no link and is ignored", "host a has no link and is ignored"]


def test_parts_without_entries_are_left_out() -> None:
    assert ImportedTopology("lab", slots={"x": 0}).as_topology_file() == {"name": "lab"}
