from pathlib import Path

import pytest

from agents.annexes.verbs.nic import Gid, find_gid, gids, hardware_counters
from emulator.errors import HostError
from emulator.host.nic import has_devices
from emulator.roce.connection.qp_facts import gid_of

NONE = "0000:0000:0000:0000:0000:0000:0000:0000"


def device(root: Path, name: str, entries: dict[int, tuple[str, str | None]], *, port: int = 1) -> None:
    folder = root / name / "ports" / str(port)
    for sub in ("gids", "gid_attrs/types", "hw_counters"):
        (folder / sub).mkdir(parents=True)
    for index, (value, kind) in entries.items():
        (folder / "gids" / str(index)).write_text(f"{value}\n")
        if kind is not None:
            (folder / "gid_attrs" / "types" / str(index)).write_text(f"{kind}\n")
    (folder / "hw_counters" / "sent_pkts").write_text("12\n")
    (folder / "hw_counters" / "lifespan").write_text("10\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    mapped = "0000:0000:0000:0000:0000:ffff:0a63:0002"
    entries = {0: ("fe80::", None), 1: (mapped, "IB/RoCE v1"), 3: (mapped, "RoCE v2"), 12: (NONE, "RoCE v2")}
    device(tmp_path, "mlx5_0", entries)  # type: ignore[arg-type]
    device(tmp_path, "rxe0", {2: ("fd99:0000:0000:0000:0000:0000:0000:0002", "RoCE v2"), 0: (mapped, "RoCE v2")})
    return tmp_path


def test_only_used_entries_for_rocev2_count(root: Path) -> None:
    assert [(one.device, one.index) for one in gids(root)] == [("mlx5_0", 3), ("rxe0", 0), ("rxe0", 2)]


def test_the_device_with_the_address_is_found(root: Path) -> None:
    assert find_gid("10.99.0.2", device="", index=None, root=root) == Gid("mlx5_0", 1, 3, gid_of("10.99.0.2"))
    assert find_gid("10.99.0.2", device="rxe0", index=None, root=root).index == 0
    assert find_gid("fd99:0::2", device="", index=2, root=root).device == "rxe0"


@pytest.mark.parametrize(
    ("host", "name", "index", "message"),
    [
        (
            "10.99.0.3",
            "",
            None,
            "no RDMA device of this host has 10.99.0.3 in its GID table for RoCEv2: see `rdma link`",
        ),
        ("10.99.0.2", "mlx5_0", 1, "mlx5_0 does not have 10.99.0.2 in its GID table for RoCEv2 at index 1"),
        ("10.99.0.2", "mlx5_9", None, "this host has no RDMA device mlx5_9; it has mlx5_0, rxe0"),
    ],
)
def test_what_is_missing_is_named(root: Path, host: str, name: str, index: int | None, message: str) -> None:
    with pytest.raises(HostError) as raised:
        find_gid(host, device=name, index=index, root=root)
    assert message in str(raised.value)


def test_a_host_without_devices_is_told_how_to_get_one(tmp_path: Path) -> None:
    assert not has_devices(tmp_path / "missing")
    assert not has_devices(tmp_path)
    with pytest.raises(HostError, match="rdma link add rxe0 type rxe netdev INTERFACE"):
        find_gid("127.0.0.1", device="", index=None, root=tmp_path)


def test_counters_of_the_port(root: Path) -> None:
    assert has_devices(root)
    assert hardware_counters(Gid("rxe0", 1, 0, b""), root) == {"sent_pkts": 12}
    assert hardware_counters(Gid("rxe0", 2, 0, b""), root) == {}
