"""What is slow stands first, and few ports have a matrix."""

from itertools import permutations

from emulator.results.statistics.pair_sweep import PairTable, find_slow
from emulator.views.terminal.pair_table import render_pairs
from tests.support.terminal import shown

PORTS = [f"h{n}:eth0" for n in range(4)]


def text(rates: dict[tuple[str, str], float], *, ports: list[str] = PORTS, is_one_host: bool = False) -> str:
    table = PairTable(ports, 1 << 20, 3 * len(rates), rates, find_slow(rates), is_one_host)
    return "\n".join(shown(part) for part in render_pairs(table))


def test_a_slow_port_and_a_slow_pair_are_named_first() -> None:
    rates = dict.fromkeys(permutations(PORTS, 2), 9e9)
    rates |= {pair: 4e9 for pair in rates if pair[1] == PORTS[2]} | {(PORTS[0], PORTS[3]): 1e9}
    lines = text(rates).splitlines()
    assert lines[0] == "Slow: h2:eth0 receives 4 Gbit/s, the others 9 Gbit/s"
    assert lines[1] == "Slow: h0:eth0 to h3:eth0 1 Gbit/s, other pairs 9 Gbit/s"
    assert lines[2] == "12 pairs of 4 ports, 36 transfers of 1 MiB; payload, median of each pair"


def test_where_all_is_well_it_says_so() -> None:
    shown_text = text(dict.fromkeys(permutations(PORTS, 2), 9e9))
    assert shown_text.startswith("No port and no pair is below 90 % of the others\n")
    assert "from, to" in shown_text


def test_many_ports_have_no_matrix() -> None:
    ports = [f"h{n}:eth0" for n in range(9)]
    assert "from, to" not in text(dict.fromkeys(permutations(ports, 2), 9e9), ports=ports)


def test_one_host_has_no_network() -> None:
    rates = dict.fromkeys(permutations(PORTS, 2), 9e9)
    assert "these are bandwidths of the tester, not of a network" in text(rates, is_one_host=True)
    assert text({}).strip() == "Nothing was measured between hosts"
