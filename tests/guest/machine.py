"""A virtual machine with Linux rdma_rxe and stock perftest, in network namespaces of its own.

Nothing is connected to the host's own network: namespace `NAME` has a bridge with the machines, namespace `NAME-gen`
this end. image.py builds what they boot from.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.guest.image import FILES, KERNEL, NoGuest, image_folder, is_built
from tests.support.command import LONGEST_S
from tests.support.skips import missing

HERE4, HERE6 = "10.99.0.9", "fd99::9"
GUEST4, GUEST6 = "10.99.0.2", "fd99::2"
HERE_MAC = "52:54:00:99:01:00"
GID_INDEX = {4: 1, 6: 2}
"""Of the machine's RDMA device: the address of that IP version."""
MTU = 9000
SNAP_BYTES = 9216
"""Bytes captured of a packet: all of it. tcpdump's buffer holds packets of this size, and its default is 256 KiB."""
_READY = "CHARKHA-GUEST-READY"
_BOOT_S = 200
_ASK = Path(__file__).with_name("ask.py")
_LOSS = "charkha_loss"


class CaptureIncomplete(Exception):
    """tcpdump was too slow: packets are missing."""


@dataclass(slots=True)
class Guest:
    """Machines, and this end.

    Attributes:
        image: folder where the image is.
        namespace: of the bridge; `NAME-gen` is this end.
        machines: how many; the methods name one by its number from 1 on.
        memory_mib: of each.
    """

    image: Path = field(default_factory=image_folder)
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

    def up(self) -> None:
        """Boot the machines.

        Raises:
            NoGuest: they cannot run here.
        """
        if os.geteuid():
            raise NoGuest("needs root")
        if not is_built(self.image):
            raise NoGuest("is not built: python -m tests.guest.image")
        if (reason := missing("ip", "nft", "ethtool", "tcpdump", "qemu-system-x86_64")) is not None:
            raise NoGuest(f"cannot be run; {reason}")
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._add_network()
            for number in range(1, self.machines + 1):
                self._boot(number)
            for number in range(1, self.machines + 1):
                self._await_boot(number)
            self._add_neighbours()
        except subprocess.CalledProcessError as error:
            said = (error.stderr or b"").decode(errors="replace").strip()
            raise NoGuest(f"does not come up: {' '.join(map(str, error.cmd))}: {said}") from error

    def _add_network(self) -> None:
        """A bridge with a tap for each machine, and this end; packets stay segments as they are on the wire."""
        bridge, end = self.namespace, f"{self.namespace}-gen"
        for name in (bridge, end):
            _ip(f"netns add {name}")
            _ip(f"-n {name} link set lo up")
            for scope in ("all", "default"):  # addresses are usable at once
                _run("ip", "netns", "exec", name, "sysctl", "-qw", f"net.ipv6.conf.{scope}.accept_dad=0")
        _ip(f"-n {bridge} link add br0 mtu {MTU} type bridge stp_state 0 forward_delay 0 mcast_snooping 0")
        _ip(f"-n {bridge} link add genbr mtu {MTU} type veth peer name gen0 mtu {MTU} netns {end}")
        _ip(f"-n {bridge} link set genbr master br0 up")
        _ip(f"-n {bridge} link set br0 up")
        _ip(f"-n {bridge} address add 10.99.0.1/24 dev br0")
        _ip(f"-n {end} link set gen0 address {HERE_MAC} up")
        _ip(f"-n {end} address add {HERE4}/24 dev gen0")
        _ip(f"-n {end} address add {HERE6}/64 dev gen0 nodad")
        _run("ip", "netns", "exec", end, "ethtool", "-K", "gen0", "tx-udp-segmentation", "off")
        for number in range(1, self.machines + 1):
            _ip(f"-n {bridge} tuntap add tap{number} mode tap vnet_hdr")
            _ip(f"-n {bridge} link set tap{number} mtu {MTU} master br0 up")

    def _add_neighbours(self) -> None:
        """Tell either end where the other one is.

        What is sent while a kernel asks for that waits in a queue of its own, and later packets may overtake it.
        """
        for number in range(1, self.machines + 1):
            for here, there in ((HERE4, f"10.99.0.{1 + number}"), (HERE6, f"fd99::{1 + number}")):
                _ip(f"-n {self.namespace}-gen neighbour replace {there} lladdr {_mac(number)} dev gen0 nud permanent")
                self.run(f"ip neighbour replace {here} lladdr {HERE_MAC} dev eth0 nud permanent", machine=number)

    def _boot(self, number: int) -> None:
        """Start a machine. It is emulated, as most machines that run tests are virtual themselves."""
        settings = f"address4=10.99.0.{1 + number} address6=fd99::{1 + number} mtu={MTU}".split()
        kernel_line = ["console=ttyS0", "quiet", "panic=-1", "mitigations=off", *(f"charkha.{one}" for one in settings)]
        network = f"virtio-net-pci,netdev=net,mac={_mac(number)},host_mtu={MTU},romfile="
        _run(
            *("ip", "netns", "exec", self.namespace, "qemu-system-x86_64"),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-daemonize"),
            *("-accel", "tcg,thread=multi", "-cpu", "max", "-m", str(self.memory_mib)),
            *("-kernel", self.image / KERNEL, "-initrd", self.image / FILES, "-append", " ".join(kernel_line)),
            *("-serial", f"file:{self._console(number)}", "-pidfile", self._pid_file(number)),
            *("-netdev", f"tap,id=net,ifname=tap{number},script=no,downscript=no", "-device", network),
        )

    def _console(self, number: int) -> Path:
        return self.folder / f"console{number}"

    def _pid_file(self, number: int) -> Path:
        return self.folder / f"pid{number}"

    def _await_boot(self, number: int) -> None:
        """Until a machine serves commands; only its console tells of that."""
        until = time.monotonic() + _BOOT_S
        while time.monotonic() < until:
            if _READY in self._console(number).read_text(errors="replace"):
                with suppress(AssertionError, subprocess.TimeoutExpired):
                    self.run("true", machine=number)
                    return
            time.sleep(0.1)
        last = self._console(number).read_text(errors="replace").strip().splitlines()[-1:]
        raise NoGuest(f"does not come up within {_BOOT_S} s; the console says {last}")

    def down(self) -> None:
        """Remove the machines and their namespaces; may be called whether they are up or not."""
        for number in range(1, self.machines + 1):
            self.kill(machine=number)
        for name in (self.namespace, f"{self.namespace}-gen"):
            if (Path("/run/netns") / name).exists():
                _ip(f"netns delete {name}")
        shutil.rmtree(self.folder, ignore_errors=True)

    def lose(self, percent: float) -> None:
        """Drop that share of all RoCEv2 packets in either direction."""
        nft = ("ip", "netns", "exec", self.namespace, "nft")
        subprocess.run([*nft, "delete", "table", "bridge", _LOSS], check=False, capture_output=True)
        if percent:
            drop = f"udp dport 4791 numgen random mod 10000 < {round(percent * 100)} counter drop;"
            hooks = ("forward", "output", "input")
            chains = (f"chain {hook} {{ type filter hook {hook} priority 0; {drop} }}\n" for hook in hooks)
            _run(*nft, f"table bridge {_LOSS} {{\n{''.join(chains)}}}")

    def start(self, command: str, *, machine: int = 1) -> subprocess.Popen[str]:
        """Start a command in a machine; its exit code is that of the process."""
        return subprocess.Popen(
            self._asking(machine, "run", command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def _asking(self, machine: int, request: str, argument: str) -> Sequence[str]:
        python = (sys.executable, "-I", str(_ASK), f"10.99.0.{1 + machine}")
        return ("ip", "netns", "exec", self.namespace, *python, request, argument)

    def run(self, command: str, *, timeout_s: float = LONGEST_S, machine: int = 1) -> str:
        """What a command in a machine prints; it must succeed."""
        process = self.start(command, machine=machine)
        try:
            output, _ = process.communicate(timeout=timeout_s)
        finally:
            process.kill()
            process.communicate()
        assert not process.returncode, output
        return output

    def kill(self, *, machine: int = 1) -> None:
        """Take a machine away, as a power failure does."""
        with suppress(FileNotFoundError, ProcessLookupError):
            pid = int(self._pid_file(machine).read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if str(self.folder).encode() in command:  # else the number is another process's by now
                os.kill(pid, signal.SIGKILL)

    def put(self, file: Path, *, machine: int = 1) -> None:
        """Copy a file to /root; it may be executed."""
        with file.open("rb") as source:
            done = subprocess.run(
                self._asking(machine, "put", file.name), stdin=source, check=False, capture_output=True, timeout=60
            )
        assert not done.returncode, done.stderr

    def await_listener(self, port: int, *, machine: int = 1) -> None:
        """Wait until somebody in a machine listens at a TCP port."""
        look = f"cat /proc/net/tcp /proc/net/tcp6 | grep -q ':{port:04X} 0000'"
        self.run(f"for i in $(seq 1500); do {look} && exit 0; sleep 0.05; done; exit 1", machine=machine)

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


def _mac(number: int) -> str:
    """Of a machine's port."""
    return f"52:54:00:99:00:{1 + number:02x}"


def _ip(words: str) -> None:
    _run("ip", *words.split())


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
