"""Users, devices, queues and reservations in one SQLite file. Results are in run folders, not here."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from emulator.annexes.service.model import Dut, Refusal, Reservation, Role, Run, RunQuery, State, User
from emulator.errors import HostError, InputError

S = TypeVar("S", bound=msgspec.Struct)
VERSION = 1
SESSION_S = 12 * 3600
"""How long a browser stays logged in."""
_SCHEMA = """
CREATE TABLE users (name TEXT PRIMARY KEY, role TEXT NOT NULL, token TEXT UNIQUE NOT NULL);
CREATE TABLE sessions (
  secret TEXT PRIMARY KEY, user TEXT NOT NULL REFERENCES users(name) ON DELETE CASCADE, expires REAL NOT NULL);
CREATE TABLE duts (name TEXT PRIMARY KEY, about TEXT NOT NULL, topologies TEXT NOT NULL, spec TEXT NOT NULL);
CREATE TABLE runs (
  id INTEGER PRIMARY KEY AUTOINCREMENT, dut TEXT NOT NULL, user TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL,
  series TEXT NOT NULL, profile TEXT, submitted REAL NOT NULL, started REAL, ended REAL, reason TEXT, verdict TEXT);
CREATE INDEX runs_by_dut ON runs (dut, state);
CREATE TABLE reservations (
  id INTEGER PRIMARY KEY AUTOINCREMENT, dut TEXT NOT NULL, user TEXT NOT NULL, begin REAL NOT NULL, end REAL NOT NULL);
"""


class Store:
    """The state of a service; a process that adds a user may have it too.

    Args:
        path: of the file; it is made if it is missing.

    Raises:
        HostError: it cannot be opened or made.
        InputError: it is no such file, or that of a newer Charkha.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.touch(mode=0o600)
            self._database = sqlite3.connect(path, isolation_level=None)
            self._database.row_factory = sqlite3.Row
            self._database.executescript(
                "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000"
            )
            version = self._database.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                self._database.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT")
        except (OSError, sqlite3.OperationalError) as error:
            raise HostError(f"{path}: cannot be opened ({error}): choose another folder") from error
        except sqlite3.DatabaseError as error:
            raise InputError(f"{path}: is not the state of a service ({error})") from error
        if version > VERSION:
            raise InputError(f"{path}: is of a newer Charkha (format {version}; this one reads {VERSION})")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    # --- users ----------------------------------------------------------------------------------------------------

    def users(self) -> list[User]:
        """All users, by name."""
        return self._read(User, "SELECT name, role FROM users ORDER BY name")

    def put_user(self, name: str, role: Role) -> str:
        """Add a user, or give one a new role; returns the new token, which replaces an older one."""
        token = secrets.token_urlsafe(32)
        self._write(
            "INSERT INTO users VALUES (?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET role = excluded.role, token = excluded.token",
            name,
            role,
            _hash(token),
        )
        self._write("DELETE FROM sessions WHERE user = ?", name)
        return token

    def remove_user(self, name: str) -> None:
        """Remove a user, with their sessions."""
        if not self._write("DELETE FROM users WHERE name = ?", name):
            raise Refusal(f"there is no user {name!r}", status=404)

    def user_of_token(self, token: str) -> User | None:
        """Who has this token."""
        return self._first(User, "SELECT name, role FROM users WHERE token = ?", _hash(token))

    def begin_session(self, user: str) -> str:
        """Log a browser in; returns the secret of its cookie."""
        secret = secrets.token_urlsafe(32)
        self._write("DELETE FROM sessions WHERE expires < ?", time.time())
        self._write("INSERT INTO sessions VALUES (?, ?, ?)", _hash(secret), user, time.time() + SESSION_S)
        return secret

    def user_of_session(self, secret: str) -> User | None:
        """Who logged in with this cookie, if that was not too long ago."""
        question = "SELECT name, role FROM users JOIN sessions ON user = name WHERE secret = ? AND expires > ?"
        return self._first(User, question, _hash(secret), time.time())

    def end_session(self, secret: str) -> None:
        """Log a browser out."""
        self._write("DELETE FROM sessions WHERE secret = ?", _hash(secret))

    # --- devices --------------------------------------------------------------------------------------------------

    def duts(self) -> list[Dut]:
        """All devices, by name."""
        rows = self._database.execute("SELECT * FROM duts ORDER BY name")
        plain = [{**row, "topologies": json.loads(row["topologies"]), "spec": json.loads(row["spec"])} for row in rows]
        return msgspec.convert(plain, list[Dut])

    def dut(self, name: str) -> Dut:
        """A device.

        Raises:
            Refusal: there is none.
        """
        found = next((one for one in self.duts() if one.name == name), None)
        if found is None:
            raise Refusal(f"there is no device {name!r}", status=404)
        return found

    def put_dut(self, dut: Dut) -> None:
        """Add or change a device."""
        listed = json.dumps(dut.topologies), json.dumps(dict(dut.spec))
        self._write("INSERT OR REPLACE INTO duts VALUES (?, ?, ?, ?)", dut.name, dut.about, *listed)

    # --- runs -----------------------------------------------------------------------------------------------------

    def add_run(self, *, dut: str, user: str, name: str, series: str, profile: str | None) -> Run:
        """Put a run at the end of a queue."""
        found = self._first(
            Run,
            "INSERT INTO runs (dut, user, name, state, series, profile, submitted) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " RETURNING *",
            *(dut, user, name, State.WAITING, series, profile, time.time()),
        )
        assert found is not None
        return found

    def run(self, identifier: int) -> Run:
        """A run.

        Raises:
            Refusal: there is none.
        """
        found = self._first(Run, "SELECT * FROM runs WHERE id = ?", identifier)
        if found is None:
            raise Refusal(f"there is no run {identifier}", status=404)
        return found

    def runs(self, which: RunQuery) -> list[Run]:
        """The selected runs, newest first."""
        asked = {name: getattr(which, name) for name in ("dut", "user", "state", "series", "profile", "name")}
        bound = {name: value for name, value in asked.items() if value is not None}
        conditions = {"name": "instr(lower(name), lower(?))"}
        where = " AND ".join(["id < ?", *(conditions.get(name, f"{name} = ?") for name in bound)])
        question = f"SELECT * FROM runs WHERE {where} ORDER BY id DESC LIMIT ?"
        return self._read(Run, question, which.before or 1 << 62, *bound.values(), which.limit)

    def runs_of(self, user: str) -> list[int]:
        """Numbers of all runs of a user."""
        return [row["id"] for row in self._database.execute("SELECT id FROM runs WHERE user = ?", (user,))]

    def queue(self, dut: str) -> list[Run]:
        """What plays and waits for a device, in order."""
        return self._read(
            Run,
            "SELECT * FROM runs WHERE dut = ? AND state IN (?, ?) ORDER BY state = ?, id",
            *(dut, State.RUNNING, State.WAITING, State.WAITING),
        )

    def next_run(self, dut: str, now_s: float) -> Run | None:
        """The first run that may play now: during a reservation, only those of its user."""
        holder = self._database.execute(
            "SELECT user FROM reservations WHERE dut = ? AND begin <= ? AND end > ?", (dut, now_s, now_s)
        ).fetchone()
        of_user, users = ("", ()) if holder is None else (" AND user = ?", (holder["user"],))
        question = f"SELECT * FROM runs WHERE dut = ? AND state = ?{of_user} ORDER BY id LIMIT 1"
        return self._first(Run, question, dut, State.WAITING, *users)

    def start_run(self, identifier: int) -> None:
        """It plays."""
        self._write("UPDATE runs SET state = ?, started = ? WHERE id = ?", State.RUNNING, time.time(), identifier)

    def end_run(self, identifier: int, state: State, *, reason: str | None = None, verdict: str | None = None) -> None:
        """It is over."""
        self._write(
            "UPDATE runs SET state = ?, ended = ?, reason = ?, verdict = ? WHERE id = ?",
            *(state, time.time(), reason, verdict, identifier),
        )

    def name_interrupted(self, reason: str) -> int:
        """All that were playing when the service ended are over; returns how many."""
        question = "UPDATE runs SET state = ?, ended = ?, reason = ? WHERE state = ?"
        return self._write(question, State.INTERRUPTED, time.time(), reason, State.RUNNING)

    # --- reservations ---------------------------------------------------------------------------------------------

    def reservations(self, now_s: float) -> list[Reservation]:
        """Those that are not over, in the order of their begin."""
        return self._read(Reservation, "SELECT * FROM reservations WHERE end > ? ORDER BY begin", now_s)

    def add_reservation(self, *, dut: str, user: str, begin_s: float, end_s: float) -> Reservation:
        """Reserve a device.

        Raises:
            Refusal: it is reserved then.
        """
        question = "SELECT * FROM reservations WHERE dut = ? AND begin < ? AND end > ?"
        other = self._first(Reservation, question, dut, end_s, begin_s)
        if other is not None:
            until = f"from {other.begin:%Y-%m-%d %H:%M} to {other.end:%Y-%m-%d %H:%M} UTC"
            raise Refusal(f"{dut} is reserved by {other.user} {until}: choose another time", status=409)
        question = "INSERT INTO reservations (dut, user, begin, end) VALUES (?, ?, ?, ?) RETURNING *"
        found = self._first(Reservation, question, dut, user, begin_s, end_s)
        assert found is not None
        return found

    def remove_reservation(self, identifier: int) -> None:
        """End a reservation."""
        self._write("DELETE FROM reservations WHERE id = ?", identifier)

    def next_boundary_s(self, dut: str, now_s: float) -> float | None:
        """When a reservation of a device begins or ends next, s since 1970."""
        times = [
            moment.timestamp() for one in self.reservations(now_s) if one.dut == dut for moment in (one.begin, one.end)
        ]
        return min((moment for moment in times if moment > now_s), default=None)

    def _read(self, kind: type[S], question: str, *values: Any) -> list[S]:
        return [msgspec.convert(dict(row), kind, strict=False) for row in self._database.execute(question, values)]

    def _first(self, kind: type[S], question: str, *values: Any) -> S | None:
        found: Sequence[S] = self._read(kind, question, *values)
        return found[0] if found else None

    def _write(self, statement: str, *values: Any) -> int:
        return self._database.execute(statement, values).rowcount


def _hash(secret: str) -> str:
    """A plain hash is enough: secrets have 256 random bits, so there is nothing to guess from it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
