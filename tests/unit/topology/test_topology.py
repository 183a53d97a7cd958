from pathlib import Path

import pytest

from emulator.errors import InputError, PlanError, TopologyError
from emulator.topology.load import load_topology
from emulator.topology.model import LOOPBACK_BLOCKS, Topology, default_loopback

SHIPPED = sorted((Path(__file__).parents[3] / "topologies").glob("*.yaml"))


def load(tmp_path: Path, text: str, *, ranks: int = 2, allow: tuple[str, ...] = ()) -> Topology:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    return load_topology(path, ranks=ranks, allow_networks=allow)


def hosts(*entries: str, placement: str = "block") -> str:
    listed = "".join(f"  - {{name: h{n}, {entry}}}\n" for n, entry in enumerate(entries))
    return f"hosts:\n{listed}placement: {placement}\n"


def names(topology: Topology) -> list[str]:
    return [topology.host_of(rank).name for rank in range(topology.ranks)]


@pytest.mark.parametrize("ranks", [1, 8, 1024, 70_000])
def test_loopback_gives_every_rank_an_address_of_its_own(ranks: int) -> None:
    topology = default_loopback(ranks)
    addresses = {topology.address_of(rank) for rank in range(ranks)}
    assert len(addresses) == ranks
    assert all(address.startswith("127.") for address in addresses)
    assert topology.rate_bps(ranks - 1) is None


def test_blocks_of_loopback_keep_runs_apart() -> None:
    blocks = [set(default_loopback(1024, block=block).addresses) for block in range(LOOPBACK_BLOCKS)]
    assert len(set.union(*blocks)) == 1024 * LOOPBACK_BLOCKS
    assert all(address.startswith("127.") for addresses in blocks for address in addresses)
    assert default_loopback(8, block=LOOPBACK_BLOCKS) == default_loopback(8)


def test_loopback_has_an_end() -> None:
    with pytest.raises(PlanError, match="20000000 ranks"):
        default_loopback(20_000_000)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_what_is_shipped_loads_and_has_its_picture(path: Path) -> None:
    topology = load_topology(path, ranks=8)
    assert topology.name == path.stem
    assert len(set(topology.addresses)) == 8
    assert path.read_text().startswith("#")
    assert "+--" in path.read_text()


def test_something_is_shipped() -> None:
    assert {path.name for path in SHIPPED} >= {"loopback.yaml", "two-hosts.yaml"}


def test_a_file_gives_hosts_addresses_and_rates(tmp_path: Path) -> None:
    text = hosts("address: 10.0.0.1, rate: 100Gbit", "addresses: ['10.0.0.8', 'fd00::9']", placement="block")
    topology = load(tmp_path, text, ranks=4)
    assert names(topology) == ["h0", "h0", "h1", "h1"]
    assert topology.addresses == ("10.0.0.1", "10.0.0.1", "10.0.0.8", "fd00::9")
    assert [topology.rate_bps(rank) for rank in range(4)] == [100 * 10**9, 100 * 10**9, None, None]
    assert (topology.name, topology.source) == ("t", str(tmp_path / "t.yaml"))


def test_a_prefix_is_dealt_out_from_its_first_usable_address(tmp_path: Path) -> None:
    topology = load(tmp_path, hosts("per_rank: 192.168.7.0/24", "per_rank: 'fd00::/64'"), ranks=4)
    assert topology.addresses == ("192.168.7.1", "192.168.7.2", "fd00::1", "fd00::2")


@pytest.mark.parametrize(
    ("placement", "slots", "expected"),
    [
        ("block", (9, 9, 9), "h0 h0 h0 h1 h1 h2 h2"),
        ("block", (1, 9, 9), "h0 h1 h1 h1 h2 h2 h2"),
        ("block", (9, 1, 1), "h0 h0 h0 h0 h0 h1 h2"),
        ("round_robin", (9, 9, 9), "h0 h1 h2 h0 h1 h2 h0"),
        ("round_robin", (9, 1, 9), "h0 h1 h2 h0 h2 h0 h2"),
        ("{0: h2, 1: h0, 2: h0, 3: h1, 4: h2, 5: h2, 6: h0}", (9, 9, 9), "h2 h0 h0 h1 h2 h2 h0"),
    ],
)
def test_placement(tmp_path: Path, placement: str, slots: tuple[int, ...], expected: str) -> None:
    entries = [f"address: 10.0.0.{n}, slots: {slot}" for n, slot in enumerate(slots)]
    assert names(load(tmp_path, hosts(*entries, placement=placement), ranks=7)) == expected.split()


@pytest.mark.parametrize(
    ("text", "ranks", "problem"),
    [
        (hosts("address: 10.0.0.1, slots: 3"), 4, "4 ranks, the topology's hosts hold 3"),
        (hosts("per_rank: 10.0.0.0/30"), 3, "hold 2"),
        (hosts("addresses: ['10.0.0.1']", "addresses: ['10.0.0.2']", placement="round_robin"), 3, "hold 2"),
        (hosts("address: 10.0.0.1", placement="{0: h0}"), 2, "rank 1 has no host"),
        (hosts("address: 10.0.0.1, slots: 1", placement="{0: h0, 1: h0}"), 2, "puts 2 ranks"),
    ],
)
def test_too_little_room_is_named(tmp_path: Path, text: str, ranks: int, problem: str) -> None:
    with pytest.raises(PlanError, match=problem) as caught:
        load(tmp_path, text, ranks=ranks)
    assert "t.yaml" in str(caught.value)


DEEP = """hosts:
- {name: h0, address: 10.0.0.1}
switches:
- {name: s, queue: deep}
links:
- endpoints: ["h0:eth0", "s:p0"]
"""


@pytest.mark.parametrize(
    ("text", "line", "key", "problem"),
    [
        ("", None, None, "is empty"),
        ("[]", 1, None, "not of type 'object'"),
        ("hosts: []", 1, "hosts", "non-empty"),
        ("name: x\nhosts:\n- {name: h0}", 3, "hosts[0]", "exactly one of address"),
        ("hosts:\n- {name: h0, address: 10.0.0.1, per_rank: 10.0.0.0/8}", 2, "hosts[0]", "exactly one of address"),
        ("hosts:\n- name: h0\n  address: lab7", 3, "hosts[0].address", "'lab7' is not a numeric IP address"),
        ("hosts:\n- name: h0\n  addresses:\n  - 10.0.0.1\n  - x", 5, "hosts[0].addresses[1]", "'x' is not a numeric"),
        ("hosts:\n- name: h0\n  per_rank: 10.0.0.1/8", 3, "hosts[0].per_rank", "host bits set"),
        ("hosts:\n- name: h0\n  address: 10.0.0.1\n  rate: fast", 4, "hosts[0].rate", "'fast' is not a rate"),
        (DEEP, 4, "switches[0].queue", "'deep' is not a size"),
        ("hosts:\n- name: h0\n  address: 10.0.0.1\n  rate: 100", 4, "hosts[0].rate", "not of type 'string'"),
        ("hosts:\n- name: h0\n  address: 10.0.0.1\n  rate: 0bit", 4, "hosts[0].rate", "carries nothing"),
        ("hosts:\n- name: h0\n  address: 10.0.0.1\n  rat: 1Gbit", 2, "hosts[0]", "'rat' was unexpected"),
        (hosts("address: 10.0.0.1") + "cables: []", 1, None, "'cables' was unexpected"),
        (hosts("address: 10.0.0.1", placement="diagonal"), 3, "placement", "block, round_robin, rail or a mapping"),
        (hosts("address: 10.0.0.1", placement="{x: h0}"), 3, "placement", "block, round_robin, rail or a mapping"),
        (hosts("address: 10.0.0.1", placement="{0: h0, 1: h7}"), 3, "placement.1", "no host 'h7'; hosts: h0"),
        (hosts("address: 10.0.0.1", "address: 10.0.0.1"), 3, "hosts[1]", "h1 and h0 have addresses in common"),
        (hosts("per_rank: 10.0.0.0/8", "address: 10.3.0.1"), 3, "hosts[1]", "h1 and h0 have addresses in common"),
        ("hosts:\n- {name: h, address: 10.0.0.1}\n- {name: h, address: 10.0.0.2}", 3, "hosts[1].name", "already"),
        ("hosts: 1\nhosts: 2", 2, "hosts", "there twice"),
        ("a: [\n]]", 2, None, "is not YAML"),
        ("a: !!python/object:os.system x", 1, None, "is not YAML"),
        ("a: \0", None, None, "is not YAML"),
        ("[" * 1000, None, None, "nested too deeply"),
        ("&a [*a]", 1, None, "uses an alias"),
        ("a: &a [1]\nb: &b [*a, *a]\nc: &c [*b, *b]", 1, None, "uses an alias"),
        ("? [a]\n: b", 1, None, "is not YAML"),
    ],
)
def test_a_wrong_file_is_named_with_line_and_key(
    tmp_path: Path, text: str, line: int | None, key: str | None, problem: str
) -> None:
    with pytest.raises(TopologyError) as caught:
        load(tmp_path, text)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "t.yaml"))
    assert (caught.value.line, caught.value.key) == (line, key)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"none.yaml: cannot be read"):
        load_topology(tmp_path / "none.yaml", ranks=1)


@pytest.mark.parametrize(
    "address",
    ["127.9.9.9", "::1", "198.18.0.1", "198.19.255.254", "192.0.2.7", "2001:db8::1", "172.31.0.1", "fdab::1"],
)
def test_traffic_may_go_to_safe_addresses(tmp_path: Path, address: str) -> None:
    assert load(tmp_path, hosts(f"address: '{address}'")).address_of(1) == address


@pytest.mark.parametrize("address", ["8.8.8.8", "198.20.0.1", "100.64.0.1", "169.254.0.1", "172.32.0.1", "2a00::1"])
def test_traffic_goes_nowhere_else_unless_allowed(tmp_path: Path, address: str) -> None:
    with pytest.raises(TopologyError, match=r"t.yaml:2, hosts\[0\]: .*--allow-network"):
        load(tmp_path, hosts(f"address: '{address}'"))
    with pytest.raises(TopologyError):
        load(tmp_path, hosts(f"address: '{address}'"), allow=("9.9.9.0/24", "2a01::/32"))
    assert load(tmp_path, hosts(f"address: '{address}'"), allow=("0.0.0.0/1", "128.0.0.0/1", "::/0")).ranks == 2


@pytest.mark.parametrize(
    "entry", ["per_rank: 0.0.0.0/0", "per_rank: 172.0.0.0/11", "address: 224.0.0.1", "address: '::'"]
)
def test_a_prefix_is_safe_only_as_a_whole_and_groups_never(tmp_path: Path, entry: str) -> None:
    with pytest.raises(TopologyError, match="--allow-network"):
        load(tmp_path, hosts(entry), allow=("224.0.0.0/4",))


def test_what_is_allowed_must_be_a_prefix(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--allow-network 'lab'"):
        load(tmp_path, hosts("address: 10.0.0.1"), allow=("lab",))
