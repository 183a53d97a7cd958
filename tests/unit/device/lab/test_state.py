"""States of labs on disk."""

import json
from pathlib import Path

import pytest

from emulator.device.lab.labs import lab_id_of
from emulator.device.lab.state import LabStore, Owner, Party
from emulator.errors import InputError, PlanError
from emulator.topology.model import Topology
from tests.support.labs import stored


def test_a_state_comes_back_as_it_was(tmp_path: Path, topology: Topology) -> None:
    store = LabStore(tmp_path / "labs")
    state = stored(store, topology, "x", limited="too fast", versions={"kernel": "6"})
    read = store.read("x")
    assert read is not None
    assert repr(read).replace("(", "[").replace(")", "]") == repr(state).replace("(", "[").replace(")", "]")


def test_a_state_of_another_release_is_named(tmp_path: Path) -> None:
    store = LabStore(tmp_path / "labs")
    (store.claim("x") / "state.json").write_text('{"format": 99}')
    with pytest.raises(InputError, match=r"state\.json: not the state of a lab \(format 99"):
        store.read("x")


def test_a_folder_without_a_state_is_a_lab_of_which_nothing_was_made(tmp_path: Path) -> None:
    store = LabStore(tmp_path / "labs")
    store.claim("x")
    assert store.read("x") is None
    assert store.ids() == ["x"]
    store.forget("x")
    assert not (tmp_path / "labs").exists()


def test_an_owner_is_its_process_and_no_later_one_of_that_number() -> None:
    me = Owner.me()
    assert me.is_alive
    assert not Owner(me.pid, me.began - 1).is_alive


def test_under_sudo_the_user_is_who_called_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("os.getuid", lambda: 0)
    monkeypatch.delenv("SUDO_UID", raising=False)
    assert (Party.me(), Party.me().is_root) == (Party(0), True)
    monkeypatch.setenv("SUDO_UID", "4242424")
    assert (str(Party.me()), Party.me().is_root) == ("user 4242424", False)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("os.getuid", lambda: 1000)
    assert Party.me() == Party(1000)  # only sudo sets it for root


def test_a_lab_of_an_earlier_release_belongs_to_root(tmp_path: Path, topology: Topology) -> None:
    store = LabStore(tmp_path / "labs")
    stored(store, topology, "x")
    path = store.folder("x") / "state.json"
    document = json.loads(path.read_text())
    del document["belongs_to"]
    path.write_text(json.dumps(document))
    assert store.read("x").belongs_to == Party(0)  # type: ignore[union-attr]


@pytest.mark.parametrize("asked", ["", "-x", "a/b", "a b", "x" * 33])
def test_an_id_that_cannot_name_a_namespace_is_refused(topology: Topology, asked: str) -> None:
    with pytest.raises(PlanError, match="--id"):
        lab_id_of(topology.name, asked)
    assert lab_id_of(topology.name, None) == "leaf-spine-2x2"
