"""Whether this host has an RDMA device, as Linux lists them."""

from __future__ import annotations

from pathlib import Path

from emulator.errors import HostError

DEVICES = Path("/sys/class/infiniband")


def has_devices(root: Path = DEVICES) -> bool:
    """Whether this host has any RDMA device."""
    return root.is_dir() and any(root.iterdir())


def require_device(root: Path = DEVICES) -> None:
    """Check that this host has an RDMA device.

    Raises:
        HostError: it has none; the message says what to do.
    """
    if not has_devices(root):
        raise HostError(
            "this host has no RDMA device: install rdma-core and load the driver of the NIC, or create a software "
            "device (`rdma link add rxe0 type rxe netdev INTERFACE`), or use the software NIC (--software-nic)"
        )
