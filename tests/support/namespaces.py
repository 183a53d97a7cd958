"""Network namespaces that a test makes for itself, with what the kernel says about the traffic in them.

Names are unique, so that tests can run beside each other; a namespace is removed with every process in it, whatever
happened to the test. Needs root; `why_not` says what is missing.
"""

import json
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.support.command import wait_for
from tests.support.skips import missing, need


def why_not() -> str | None:
    """What keeps this host from running lab tests; None: nothing."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if (reason := missing("ip", "nft", "ethtool", "tcpdump", "tshark")) is not None:
        return reason
    try:
        with namespace():
            return None
    except subprocess.CalledProcessError as error:
        return f"no network namespace can be made here: {error.stderr.strip()}"


def need_switch(kind: str) -> None:
    """Skips where the host has not the software that a switch of this kind is made of."""
    if kind == "ovs":
        need("ovs-vswitchd")


class Namespace:
    """A network namespace with a loopback interface that is up."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.prefix = ("ip", "netns", "exec", name)
        """What runs a command in it, before the command."""

    def run(self, *command: object, text: str | None = None) -> str:
        """Run a command in it to its end; what it printed.

        Raises:
            CalledProcessError: it failed.
        """
        words = [*self.prefix, *map(str, command)]
        return subprocess.run(words, input=text, capture_output=True, text=True, timeout=60, check=True).stdout

    def sysctl(self, *settings: str) -> None:
        """Set kernel parameters, as net.ipv4.conf.all.rp_filter=0."""
        self.run("sysctl", "-qw", *settings)

    def nft(self, rules: str) -> None:
        """Load nftables rules."""
        self.run("nft", "-f", "-", text=rules)

    def counters(self, table: str) -> dict[str, int]:
        """Packets of the table's named counters."""
        listed = json.loads(self.run("nft", "-j", "list", "counters", "table", "inet", table))["nftables"]
        return {one["counter"]["name"]: one["counter"]["packets"] for one in listed if "counter" in one}

    def _processes(self) -> list[int]:
        listed = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, check=False)
        return [int(pid) for pid in listed.stdout.split()]

    def remove(self) -> None:
        """Remove it, and end every process in it."""
        for pid in self._processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        subprocess.run(["ip", "netns", "delete", self.name], capture_output=True, check=False)


@contextmanager
def namespace() -> Iterator[Namespace]:
    """A namespace for the length of a test."""
    one = Namespace(f"charkha-test-{secrets.token_hex(4)}")
    subprocess.run(["ip", "netns", "add", one.name], capture_output=True, text=True, check=True, timeout=60)
    with ExitStack() as stack:
        stack.callback(one.remove)
        one.run("ip", "link", "set", "lo", "up")
        yield one


def cut_frames(place: Namespace, interface: str) -> None:
    """Have the kernel cut datagrams before they reach the interface, as a NIC would, and merge none behind it."""
    place.run("ethtool", "-K", interface, "tx-udp-segmentation", "off", "gso", "off", "gro", "off")


class Capture:
    """A tcpdump that is running."""

    def __init__(self, process: subprocess.Popen[str], path: Path, *, log: Path) -> None:
        self.path = path
        self._process, self._log = process, log
        self.frames = self.dropped = -1
        """What tcpdump wrote, and what it lost; known when it has ended."""

    def stop(self) -> None:
        """End it, once all that the kernel has for it is written."""
        wait_for(self._has_all)
        self._process.send_signal(signal.SIGINT)
        self._process.wait(10)

    def _has_all(self) -> bool | None:
        """Ask for its counts; loopback shows it every frame twice, of which it writes one."""
        said = len(self._log.read_text())
        self._process.send_signal(signal.SIGUSR1)
        wait_for(lambda: self._log.read_text()[said:].endswith("\n") or None)
        numbers = [int(word) for word in self._log.read_text()[said:].split() if word.isdecimal()]
        self.frames, seen, self.dropped = numbers[:3]
        return self.dropped > 0 or seen in (self.frames, 2 * self.frames) or None


@contextmanager
def captured(
    place: Namespace, interface: str, path: Path, *, snap_bytes: int = 9216, only: str = "udp port 4791"
) -> Iterator[Capture]:
    """What goes over the interface, by default to UDP port 4791; on loopback every frame once.

    Args:
        only: a filter of tcpdump.
        snap_bytes: of every frame so much: the more, the fewer frames the kernel keeps for tcpdump.
    """
    log = path.with_suffix(".log")
    options = ["--immediate-mode", "-U", "-n", "-B", "131072", "-s", str(snap_bytes), "-i", interface, "-w", str(path)]
    with log.open("w") as stderr:
        process = subprocess.Popen([*place.prefix, "tcpdump", *options, only], stderr=stderr, text=True)
    with process:
        try:
            wait_for(lambda: "listening on" in log.read_text() or None)
            capture = Capture(process, path, log=log)
            yield capture
            capture.stop()
        finally:
            process.kill()


def join_by_cable(place: Namespace, near: str, far: str) -> tuple[str, str]:
    """Give the namespace two addresses with a veth pair between them, which all that they tell each other crosses.

    Both ends are in one namespace, whose kernel would otherwise keep it to itself: rules look for a cable first.

    Returns:
        The interfaces of `near` and `far`.
    """
    family = "-6" if ":" in near else "-4"
    macs = {"near0": "02:00:00:00:00:01", "far0": "02:00:00:00:00:02"}
    place.run(*("ip", "link", "add", "near0", "mtu", 9000, "address", macs["near0"], "type", "veth", "peer", "far0"))
    place.run(*("ip", "link", "set", "far0", "mtu", 9000, "address", macs["far0"]))
    place.sysctl("net.ipv4.conf.all.rp_filter=0")
    for interface, own, other, mac in (("near0", near, far, macs["far0"]), ("far0", far, near, macs["near0"])):
        place.sysctl(f"net.ipv4.conf.{interface}.accept_local=1", f"net.ipv4.conf.{interface}.rp_filter=0")
        place.run("ip", family, "address", "add", f"{own}/{128 if ':' in own else 32}", "dev", interface, "nodad")
        place.run("ip", "link", "set", interface, "up")
        place.run("ip", family, "neigh", "add", other, "lladdr", mac, "dev", interface, "nud", "permanent")
        cut_frames(place, interface)
        table = 100 + int(interface == "far0")
        place.run("ip", family, "route", "add", other, "dev", interface, "table", table)
        place.run("ip", family, "rule", "add", "pref", 10, "iif", interface, "lookup", "local")
        place.run("ip", family, "rule", "add", "pref", 20, "iif", "lo", "from", own, "to", other, "lookup", table)
    place.run("ip", family, "rule", "add", "pref", 30, "lookup", "local")
    place.run("ip", family, "rule", "delete", "pref", 0)
    return "near0", "far0"
