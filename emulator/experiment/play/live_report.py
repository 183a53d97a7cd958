"""The report of a run: a page that is served during the run, and a file at the end."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from emulator.errors import EmulatorError, HostError, RunInterrupted
from emulator.experiment.play.live_address import LOCAL, LiveAddress
from emulator.plugins import BUILT_IN, PluginKind
from emulator.results.run_folder.manifest import MANIFEST
from emulator.results.run_folder.session import load_session

_LOCAL_NAMES = (LOCAL, "localhost")
_MAX_SHUTDOWN_S = 20.0


@contextlib.contextmanager
def report_around(
    folder: Path, *, live: LiveAddress | None, report: bool, notify: Callable[[str], None]
) -> Iterator[None]:
    """Serve the live page of a run while the context is open, and write report.html at the end.

    Args:
        folder: run folder.
        live: address of the live page; None: no live page.
        report: write report.html.
        notify: receives the URL of the live page, and that an interrupted run is writing its report.

    Raises:
        HostError: the page cannot be served, or the file cannot be written.
    """
    with contextlib.nullcontext() if live is None else live_page(live, folder, notify=notify):
        try:
            yield
        except BaseException as error:
            if isinstance(error, RunInterrupted) and report:
                notify("traffic has stopped; writing the report")  # a second or two, for which the user waits
            with contextlib.suppress(EmulatorError):  # the error that ended the run is the one to report
                if report and (folder / MANIFEST).exists():
                    write_report_of(folder)
            raise
        if report:
            write_report_of(folder)


@contextlib.contextmanager
def live_page(address: LiveAddress, folder: Path, *, notify: Callable[[str], None] = lambda _: None) -> Iterator[str]:
    """Serve the page of a run folder in a separate process; yields its URL.

    On exit the server learns that the run has ended, and stops once its readers have the last page.

    Raises:
        HostError: the address or port is not available.
    """
    names = [name for name in _LOCAL_NAMES if address.address == LOCAL]
    with listening(address, what="the live page", remedy="choose another, or --live without a port") as listener:
        url = f"http://{address.host}:{listener.getsockname()[1]}/"
        server = start_server(folder, listener, names)
    notify(f"the live page is at {url}")
    try:
        yield url
    finally:
        end_server(server)


def start_server(folder: Path, listener: socket.socket, names: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the process that serves the page of a run folder on a listening socket, to hosts of these names; none: any.

    It ends when its stdin is closed: with this process at the latest.
    """
    module, _, _ = BUILT_IN[PluginKind.HOOKS]["live_page"].partition(":")
    command = [sys.executable, "-P", "-m", module, str(folder), str(listener.fileno()), *names]
    return subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])


def listening(address: LiveAddress, *, what: str, remedy: str) -> socket.socket:
    """A listening socket.

    Raises:
        HostError: the address or port is not available.
    """
    family = socket.AF_INET6 if ":" in address.address else socket.AF_INET
    try:
        return socket.create_server((address.address, address.port), family=family)
    except OSError as error:
        problem = f"{what} cannot be served at {address.host}:{address.port} ({error.strerror})"
        raise HostError(f"{problem}: {remedy}") from error


def end_server(server: subprocess.Popen[bytes]) -> None:
    """Tell it that the run is over, and wait until its readers have the last page, or for as long as that may take."""
    assert server.stdin is not None
    server.stdin.close()
    try:
        server.wait(_MAX_SHUTDOWN_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def write_report_of(folder: Path) -> None:
    """Write the report of a run or a session.

    Raises:
        HostError: the file cannot be written.
    """
    from emulator.views.html.writing import write_report  # takes a tenth of a second, which other runs save

    write_report(load_session(folder))
