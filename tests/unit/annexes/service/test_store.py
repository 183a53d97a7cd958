"""Users, queues and reservations as they are kept."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from emulator.annexes.service.model import Dut, Refusal, Role, Run, RunQuery, State
from emulator.annexes.service.store import VERSION, Store
from emulator.errors import InputError


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(tmp_path / "state")) as found:
        found.put_dut(Dut(name="dut", topologies=("a", "b"), spec={"timeout_s": 5}))
        yield found


def add(store: Store, user: str = "ann", dut: str = "dut") -> Run:
    return store.add_run(dut=dut, user=user, name="trace", series="5e71e5", profile=None)


def test_no_secret_is_in_the_file(store: Store, tmp_path: Path) -> None:
    secrets = [store.put_user("ann", Role.ADMIN), store.begin_session("ann")]
    found = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"ann" in found
    assert not [one for one in secrets if one.encode() in found]
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0


def test_a_new_token_replaces_the_old_one_and_ends_sessions(store: Store) -> None:
    old, session = store.put_user("ann", Role.VIEWER), store.begin_session("ann")
    new = store.put_user("ann", Role.OPERATOR)
    assert store.user_of_token(old) is None
    assert store.user_of_session(session) is None
    found = store.user_of_token(new)
    assert found is not None
    assert found.role is Role.OPERATOR


def test_sessions_expire_and_end_with_their_user(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_user("ann", Role.VIEWER)
    first, second = store.begin_session("ann"), store.begin_session("ann")
    store.end_session(second)
    assert [store.user_of_session(one) is not None for one in (first, second)] == [True, False]
    later = time.time() + 13 * 3600
    monkeypatch.setattr(time, "time", lambda: later)
    assert store.user_of_session(first) is None
    monkeypatch.undo()
    store.remove_user("ann")
    assert store.user_of_session(first) is None


def test_runs_of_a_device_play_in_order(store: Store) -> None:
    first, second = add(store), add(store)
    add(store, dut="other")
    store.start_run(first.id)
    assert [(one.id, one.state) for one in store.queue("dut")] == [(first.id, "running"), (second.id, "waiting")]
    assert store.next_run("dut", time.time()) == second
    store.end_run(first.id, State.COMPLETE, verdict="PASS")
    assert store.run(first.id).verdict == "PASS"


def test_during_a_reservation_only_its_user_plays(store: Store) -> None:
    now = time.time()
    ann, bob = add(store, "ann"), add(store, "bob")
    store.add_reservation(dut="dut", user="bob", begin_s=now + 10, end_s=now + 20)
    playing = [store.next_run("dut", now + after) for after in (0, 10, 19.9, 20)]
    assert playing == [ann, bob, bob, ann]
    assert store.next_boundary_s("dut", now) == pytest.approx(now + 10)
    assert store.next_boundary_s("dut", now + 10) == pytest.approx(now + 20)


def test_a_time_is_reserved_once(store: Store) -> None:
    now = time.time()
    store.add_reservation(dut="dut", user="bob", begin_s=now, end_s=now + 10)
    with pytest.raises(Refusal, match="dut is reserved by bob from"):
        store.add_reservation(dut="dut", user="ann", begin_s=now + 9, end_s=now + 19)
    store.add_reservation(dut="dut", user="ann", begin_s=now + 10, end_s=now + 20)


def test_what_was_playing_is_named_interrupted_and_the_rest_waits(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "state")) as store:
        first, second = add(store), add(store)
        store.start_run(first.id)
    with closing(Store(tmp_path / "state")) as store:
        assert store.name_interrupted("killed") == 1
        assert (store.run(first.id).state, store.run(first.id).reason) == (State.INTERRUPTED, "killed")
        assert store.queue("dut") == [second]


def test_history_is_selected_and_paged(store: Store) -> None:
    runs = [add(store, user) for user in ("ann", "bob", "ann", "ann")]
    page = store.runs(RunQuery(user="ann", limit=2))
    assert page == [runs[3], runs[2]]
    assert store.runs(RunQuery(user="ann", limit=2, before=page[-1].id)) == [runs[0]]
    assert store.runs(RunQuery(dut="none")) == []
    other = store.add_run(dut="dut", user="ann", name="All-reduce_1%", series="5e71e5", profile="fw-b")
    for which in (
        RunQuery(name="REDUCE_"),
        RunQuery(name="1%"),
        RunQuery(profile="fw-b"),
        RunQuery(user="ann", limit=1),
    ):
        assert store.runs(which) == [other]
    assert other not in store.runs(RunQuery(name="trace"))


def test_a_newer_or_foreign_file_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "newer")) as database:
        database.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(InputError, match="of a newer Charkha"):
        Store(tmp_path / "newer")
    (tmp_path / "foreign").write_bytes(b"no database" * 100)
    with pytest.raises(InputError, match="is not the state of a service"):
        Store(tmp_path / "foreign")


@pytest.mark.parametrize("ask", [lambda s: s.run(7), lambda s: s.dut("x"), lambda s: s.remove_user("x")])
def test_what_is_not_there_is_said(store: Store, ask) -> None:
    with pytest.raises(Refusal, match="there is no") as refusal:
        ask(store)
    assert refusal.value.status == 404
