"""The configuration of a service: `serve.yaml` in its folder. Everything has a default."""

from __future__ import annotations

import os
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from emulator.errors import InputError, TopologyError
from emulator.experiment.play.live_address import LiveAddress, parse_live_address
from emulator.schema import SchemaProblem, Section, decode
from emulator.topology.document import read_document
from emulator.units import parse_size

FILE = "serve.yaml"
DEFAULT_LISTEN = "127.0.0.1:8760"
DEFAULT_DISK_QUOTA = "50G"


class Configuration(Section, frozen=True, kw_only=True):
    """What `serve.yaml` says. Relative paths start at its folder.

    Attributes:
        listen: [ADDRESS:]PORT; another address than one of loopback needs `identity`.
        traces, topologies, profiles, suites: folders whose files run specs may name, beside those that Charkha ships.
        disk_quota: what the runs of a user may take, a size.
        identity: PEM file with key and certificate, as `charkha agent certs issue` writes it: the service speaks TLS.
    """

    charkha_service: Literal[1] = 1
    listen: str = DEFAULT_LISTEN
    traces: tuple[str, ...] = ()
    topologies: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    disk_quota: str | int = DEFAULT_DISK_QUOTA
    identity: str | None = None

    @property
    def disk_quota_bytes(self) -> int:
        """As a number."""
        return parse_size(str(self.disk_quota))


@dataclass(frozen=True, slots=True)
class ServiceFolder:
    """The folder of a service, and what is in it."""

    folder: Path

    @property
    def configuration(self) -> Path:
        """Its configuration."""
        return self.folder / FILE

    @property
    def state(self) -> Path:
        """Its SQLite file."""
        return self.folder / "service.sqlite"

    @property
    def runs(self) -> Path:
        """A folder per run: `charkha runs list` finds the run folders in them."""
        return self.folder / "runs"

    @property
    def uploads(self) -> Path:
        """Traces and rules that users stored, a folder for each user."""
        return self.folder / "uploads"

    @property
    def rules(self) -> Path:
        """Rules of cases that runs were judged by."""
        return self.folder / "rules"

    def run(self, identifier: int) -> RunPlace:
        """The files of a run."""
        return RunPlace(self.runs / f"{identifier:06}")

    def lock(self, dut: str) -> Path:
        """What a run on a device holds locked until its process is gone."""
        return self.folder / "locks" / dut


@dataclass(frozen=True, slots=True)
class RunPlace:
    """The files of a run."""

    folder: Path

    @property
    def submitted(self) -> Path:
        """Its run spec as the user wrote it."""
        return self.folder / "submitted.yaml"

    @property
    def spec(self) -> Path:
        """Its run spec as it is played: paths are absolute, and what the device sets is set."""
        return self.folder / "spec.yaml"

    @property
    def log(self) -> Path:
        """What the process wrote to stderr."""
        return self.folder / "log.txt"

    @property
    def result(self) -> Path:
        """What the process wrote to stdout: `charkha run --json`."""
        return self.folder / "result.json"

    @property
    def results(self) -> Path:
        """Its run folder, or the folder of a session."""
        return self.folder / "run"


def read_configuration(place: ServiceFolder, *, listen: str | None = None) -> Configuration:
    """Read the configuration of a service; its paths become absolute.

    Args:
        place: of the service; without a file in it, everything has its default.
        listen: in place of that in the file.

    Raises:
        InputError: it cannot be read, a folder does not exist, or others could read what they must not.
    """
    path = place.configuration
    found = _read(path) if path.exists() else Configuration()
    found = _absolute(found, place.folder.absolute(), path)
    if listen is not None:
        found = replace(found, listen=listen)
    if not ip_address(address_of(found.listen).address).is_loopback and found.identity is None:
        raise InputError(
            f"{found.listen}: is not an address of loopback, so tokens would cross the network in clear: name an"
            f" identity in {path} (charkha agent certs issue), or listen on 127.0.0.1 and forward the port with ssh -L"
        )
    return found


def address_of(listen: str) -> LiveAddress:
    """Where to listen.

    Raises:
        InputError: it is no address.
    """
    try:
        return parse_live_address(listen)
    except ValueError:
        raise InputError(f"listen: {listen!r}: write a port, or an address and a port") from None


def _read(path: Path) -> Configuration:
    document = read_document(path)
    try:
        found = decode(document.value, Configuration)
        address_of(found.listen)
        document.parse(parse_size, found.disk_quota, ("disk_quota",))
    except SchemaProblem as problem:
        raise document.error(problem.problem, problem.path) from problem
    except TopologyError:
        raise
    except InputError as error:
        raise document.error(str(error)) from error
    return found


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except OSError:  # a name that is too long
        return False


def _absolute(found: Configuration, folder: Path, path: Path) -> Configuration:
    moved = {
        name: tuple(os.fspath(folder / one) for one in getattr(found, name))
        for name in ("traces", "topologies", "profiles", "suites")
    }
    for name, folders in moved.items():
        for one in folders:
            if not _is_folder(one):
                raise InputError(f"{path}: {name}: there is no folder {one!r}")
    return replace(found, identity=found.identity and os.fspath(folder / found.identity), **moved)
