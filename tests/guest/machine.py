"""A virtual machine with Linux rdma_rxe and stock perftest, in network namespaces of its own.

The script that builds and boots it lies beside the project where it is developed. Nothing is connected to the host's
own network: namespace `…` has a bridge with the machine, namespace `…-gen` this end.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE4, HERE6 = "10.99.0.9", "fd99::9"
GUEST4, GUEST6 = "10.99.0.2", "fd99::2"
GID_INDEX = {4: 1, 6: 2}
"""Of the machine's RDMA device: the address of that IP version."""
SCRIPT = Path(__file__).resolve().parents[3] / "shared" / "rxe" / "rxe-vm.sh"


BOOT_FILES = ("vmlinux", "initrd.cpio")
SNAP_BYTES = 9216
"""Bytes captured of a packet: all of it. tcpdump's buffer holds packets of this size, and its default is 256 KiB."""


class NoGuest(Exception):
    """No such machine can run here; the message says why."""


class CaptureIncomplete(Exception):
    """tcpdump was too slow: packets are missing."""


@dataclass(slots=True)
class Guest:
    """One machine and this end.

    Attributes:
        image: folder where the image is built; reused if it is there.
        namespace: of the bridge; `NAME-gen` is this end.
        machines: how many; the methods name one by its number from 1 on.
        memory_mib: of each.
    """

    image: Path
    namespace: str = field(default_factory=lambda: f"rxe{os.getpid()}")
    machines: int = 1
    memory_mib: int = 384

    @property
    def folder(self) -> Path:
        """What belongs to these machines alone."""
        return self.image / self.namespace

    @property
    def here(self) -> Sequence[str]:
        """What stands before a command of this end."""
        return ("ip", "netns", "exec", f"{self.namespace}-gen")

    @property
    def _variables(self) -> Mapping[str, str]:
        names = {"RXE_VM_DIR": str(self.folder), "RXE_NS": self.namespace, "RXE_GEN_NS": f"{self.namespace}-gen"}
        names["RXE_MEM"] = str(self.memory_mib)
        return {**os.environ, **names}

    def up(self) -> None:
        """Build it if need be, and boot it.

        Raises:
            NoGuest: it cannot run here.
        """
        if os.geteuid():
            raise NoGuest("needs root")
        if not SCRIPT.exists():
            raise NoGuest(
                f"needs the script that boots it: {SCRIPT.parent.name}/{SCRIPT.name} is not beside the project"
            )
        if shutil.which("apt-get") is None and shutil.which("qemu-system-x86_64") is None:
            raise NoGuest("needs qemu-system-x86_64, and there is no apt-get to install it")
        self._make_image()
        done = self._script("up", str(self.machines), timeout_s=240)
        if done.returncode:
            raise NoGuest(f"does not come up: {(done.stdout + done.stderr).strip().splitlines()[-1:]}")
        segment = ("ethtool", "-K", "gen0", "tx-udp-segmentation", "off")  # what tcpdump shows is what is on the wire
        subprocess.run([*self.here, *segment], check=True, capture_output=True)

    def _make_image(self) -> None:
        """Link the files that it boots from; the first one to come builds them, others wait."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.image / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not all((self.image / name).exists() for name in BOOT_FILES):
                done = self._script("build", timeout_s=240, folder=self.image)
                if done.returncode:
                    raise NoGuest(f"cannot be built: {(done.stdout + done.stderr).strip().splitlines()[-1:]}")
        for name in BOOT_FILES:
            (self.folder / name).unlink(missing_ok=True)
            (self.folder / name).hardlink_to(self.image / name)

    def down(self) -> None:
        """Remove it and its namespaces."""
        self._script("down", timeout_s=60)
        shutil.rmtree(self.folder, ignore_errors=True)

    def lose(self, percent: float) -> None:
        """Drop that share of all RoCEv2 packets in either direction."""
        self._script("loss", f"{percent:g}", timeout_s=20)

    def start(self, command: str, *, machine: int = 1) -> subprocess.Popen[str]:
        """Start a command in a machine; its exit code is that of the process."""
        return subprocess.Popen(
            [str(SCRIPT), "exec", "-v", str(machine), command],
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str, *, timeout_s: float = 30, machine: int = 1) -> str:
        """What a command in a machine prints; it must succeed."""
        process = self.start(command, machine=machine)
        output, _ = process.communicate(timeout=timeout_s)
        assert not process.returncode, output
        return output

    def kill(self, *, machine: int = 1) -> None:
        """Take a machine away, as a power failure does."""
        os.kill(int((self.folder / "run" / f"vm{machine}.pid").read_text()), signal.SIGKILL)

    def put(self, file: Path, *, machine: int = 1) -> None:
        """Copy a file to /root; it may be executed."""
        done = self._script("put", "-v", str(machine), str(file), file.name, timeout_s=60)
        assert not done.returncode, done.stderr

    def await_listener(self, port: int, *, machine: int = 1) -> None:
        """Wait until somebody in a machine listens at a TCP port."""
        look = f"cat /proc/net/tcp /proc/net/tcp6 | grep -q ':{port:04X} 0000'"
        self.run(f"for i in $(seq 300); do {look} && exit 0; sleep 0.05; done; exit 1", machine=machine)

    def counters(self) -> dict[str, int]:
        """The counters of its RDMA device since it booted: see `rdma statistic`."""
        words = self.run("rdma statistic show link rxe0/1").split()[2:]
        return {name: int(value) for name, value in zip(words[::2], words[1::2], strict=True)}

    def port_drops(self) -> int:
        """Packets to it that its port has dropped as its receive ring was full."""
        command = ["ip", "-n", self.namespace, "-s", "-j", "link", "show", "tap1"]
        shown = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return int(shown[0]["stats64"]["tx"]["dropped"])

    @contextmanager
    def capturing(self, interface: str, file: Path, *, namespace: str) -> Iterator[None]:
        """Capture RoCEv2 packets of an interface.

        Raises:
            CaptureIncomplete: at the end.
        """
        buffer = ("-s", str(SNAP_BYTES), "-B", "131072")
        arguments = ("-i", interface, *buffer, "-w", str(file), "udp", "port", "4791")
        tcpdump = subprocess.Popen(
            ["ip", "netns", "exec", namespace, "tcpdump", "--immediate-mode", "-Z", "root", *arguments],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert tcpdump.stderr is not None
        try:
            line = tcpdump.stderr.readline()
            assert "listening on" in line, line
            yield
        finally:
            tcpdump.send_signal(signal.SIGINT)
            _, said = tcpdump.communicate(timeout=60)
        if "\n0 packets dropped by kernel" not in said:
            raise CaptureIncomplete(" ".join(said.split()))

    def _script(self, *words: str, timeout_s: float, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(SCRIPT), *words],
            env={**self._variables, "RXE_VM_DIR": str(folder or self.folder)},
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout_s,
        )
