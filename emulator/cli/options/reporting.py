"""The report of a run, from the commands that play: its file at the end, and its page while the run goes on."""

from __future__ import annotations

import argparse
import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from emulator.errors import EmulatorError, HostError

_LOCAL = "127.0.0.1"
_LOCAL_NAMES = (_LOCAL, "localhost")
_LONGEST_FAREWELL_S = 20.0


class Place(NamedTuple):
    """Where a live page is served; port 0 = any that is free."""

    address: str = _LOCAL
    port: int = 0

    @property
    def host(self) -> str:
        """The address as URLs write it."""
        return f"[{self.address}]" if ":" in self.address else self.address


def parse_place(text: str) -> Place:
    """`8080`, or with an address of this host: `0.0.0.0:8080`, `[::]:8080`.

    Raises:
        ValueError: neither.
    """
    problem = f"{text!r}: write a port, or an address and a port, as 8080 or 0.0.0.0:8080 (TRACE comes before --live)"
    address, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) <= 65_535:
        raise ValueError(problem)
    try:
        return Place(str(ip_address(address.strip("[]"))) if address else _LOCAL, int(port))
    except ValueError:
        raise ValueError(problem) from None


@contextlib.contextmanager
def reporting(args: argparse.Namespace, folder: Path) -> Iterator[None]:
    """Around playing into `folder`: serve the live page where `--live` asks for it, write report.html at the end.

    Raises:
        HostError: the page cannot be served there, the file cannot be written.
    """
    from emulator.run_folder.record import MANIFEST

    is_used = (folder / MANIFEST).exists()  # by another run: its report stays
    with contextlib.nullcontext() if args.live is None else live_page(args.live, folder):
        try:
            yield
        except BaseException:
            with contextlib.suppress(EmulatorError):  # the error that ended the run is the one to tell
                _write(args, folder, is_used=is_used)
            raise
        _write(args, folder, is_used=is_used)


@contextlib.contextmanager
def live_page(place: Place, folder: Path) -> Iterator[str]:
    """Serve the page of a run folder, in a process of its own; gives its URL, and says it on stderr.

    Leaving tells the server that the run is over; it goes when readers have the last page.

    Raises:
        HostError: the address or port cannot be had.
    """
    with _listener(place) as listener:
        url = f"http://{place.host}:{listener.getsockname()[1]}/"
        names = [name for name in _LOCAL_NAMES if place.address == _LOCAL]
        arguments = ["--folder", str(folder), "--listener", str(listener.fileno()), *(f"--name={one}" for one in names)]
        command = [sys.executable, "-P", "-m", "emulator.views.html.live", *arguments]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
    print(f"charkha: the run is shown at {url}", file=sys.stderr, flush=True)
    try:
        yield url
    finally:
        _end(server)


def _listener(place: Place) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.address else socket.AF_INET
    try:
        return socket.create_server((place.address, place.port), family=family)
    except OSError as error:
        problem = f"the live page cannot be served at {place.host}:{place.port} ({error.strerror})"
        raise HostError(f"{problem}: choose another, or --live without a port") from error


def _end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    server.stdin.close()
    try:
        server.wait(_LONGEST_FAREWELL_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _write(args: argparse.Namespace, folder: Path, *, is_used: bool) -> None:
    from emulator.run_folder.record import MANIFEST, read_run

    if args.report and not is_used and (folder / MANIFEST).exists():
        from emulator.views.html.writing import write_report  # a tenth of a second that other runs need not take

        write_report(read_run(folder))
