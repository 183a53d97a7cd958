"""Without a descriptor a run of this host's agents ends; strangers at a network address do not end one."""

from __future__ import annotations

import logging
from typing import NoReturn

import pytest

from emulator.controller.roster import control_server
from emulator.controller.roster.control_server import DescriptorWatch
from emulator.controller.roster.listen_address import ListenAddress
from emulator.errors import HostError


def refuse(**_: int) -> NoReturn:
    raise HostError("too many open files")


@pytest.mark.parametrize("listening", [None, ListenAddress("unix:/tmp/x.sock")])
def test_own_agents_need_one(listening: ListenAddress | None, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = DescriptorWatch(listening)
    watch.check()
    monkeypatch.setattr(control_server, "reserve", refuse)
    with pytest.raises(HostError, match="too many open files"):
        watch.check()


def test_strangers_are_named_once_a_minute(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = DescriptorWatch(ListenAddress("192.0.2.1:4790", token="secret"))
    monkeypatch.setattr(control_server, "reserve", refuse)
    with caplog.at_level(logging.WARNING):
        watch.check()
        watch.check()
    watch.release()
    assert [one.message for one in caplog.records if one.name == control_server.__name__] == [
        "connections to the control address that send nothing hold all descriptors: too many open files"
    ]
