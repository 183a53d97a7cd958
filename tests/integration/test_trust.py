"""Who may talk to whom, over real TLS on 127.0.0.1: whatever is wrong is refused, said once, and moves no packet."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agents import control_link
from agents.agent import Agent
from agents.host.limits import Limits
from agents.host.ports import Ports
from emulator.annexes.launch.authority import issue, issue_token, make_authority, revoke
from emulator.control import conversation as control
from emulator.control.authentication import Purpose, code_of
from emulator.control.certificates.identity import LIST
from emulator.control.certificates.roles import Role
from emulator.control.wire.codec import decode_controller, encode_agent, encode_controller
from emulator.control.wire.descriptions import Sealer
from emulator.control.wire.tls import TlsFiles
from emulator.controller.roster.control_server import serve_control
from emulator.controller.roster.control_service import AgentChannel
from emulator.controller.roster.listen_address import ListenAddress
from emulator.errors import EmulatorError
from emulator.planner.rank_program import PlaySettings
from tests.support.loopback import NET, free_port

SECRET = "a secret of the lab, long enough for HS256"
SETTINGS = PlaySettings(credits=True, instances=1, algorithms=(), groups=[[0, 1]])
DAY = timedelta(days=1)
HOST, OTHER_HOST = f"{NET}.0.1", f"{NET}.0.9"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_authority(tmp_path_factory.mktemp("lab") / "authority", name="lab").parent


def identity(folder: Path, role: Role, *, age: timedelta = timedelta(), name: str = "west") -> TlsFiles:
    now, path = datetime.now(UTC) - age, folder / f"{secrets.token_hex(4)}.pem"
    return TlsFiles(identity=issue(folder, name, role=role, addresses=["localhost"], valid=DAY, out=path, now=now).path)


@dataclass
class Played:
    """A controller that gives an agent one run, as far as it comes; what the agent said, and why it ended."""

    controller: TlsFiles | None
    secret: str | None = None
    place: control.RankPlace = field(default_factory=lambda: control.RankPlace(0, HOST, 1, 1))
    said: list[Any] = field(default_factory=list)

    def admit(self, channel: AgentChannel) -> str | None:
        channel.send(control.Setup({0: control.JobSetup("r", [self.place], "roce", 1 << 20, 0, SETTINGS)}))
        return None

    def heard(self, channel: AgentChannel, message: control.JobMessage[Any]) -> None:
        if isinstance(message.value, control.Bound | control.Abort):
            self.said.append(message.value)
        if isinstance(message.value, control.Bound):
            channel.send(control.Abort("it worked"))
        channel.close()

    def lost(self, channel: AgentChannel, reason: str) -> None:
        pass

    def with_agent(self, tls: TlsFiles | None, token: str = "", **more: Any) -> str:
        """Why the agent ended."""

        async def run() -> None:
            target = f"localhost:{free_port()}"
            listening = ListenAddress(target, self.secret, self.controller)
            local = f"unix:@{secrets.token_hex(8)}".replace("unix:@", "unix-abstract:")
            async with (
                asyncio.timeout(60) as self.deadline,
                serve_control(self, local, token="x" * 32, run_id="r", listening=listening),
            ):
                await Agent(
                    target, token=token, name="west", ports=Ports(()), tls=tls, **{"limits": Limits()} | more
                ).run()

        with pytest.raises((EmulatorError, TimeoutError)) as ended:
            asyncio.run(run())
        return str(ended.value)


def refused(
    played: Played, tls: TlsFiles | None, token: str = "", logged: pytest.LogCaptureFixture | None = None, **more: Any
) -> str:
    """Why an agent is refused that must not get as far as opening sockets; the controller logged it once."""
    reason = played.with_agent(tls, token, **more)
    if logged is not None:
        assert [reason.endswith(record.message.partition(": ")[2]) for record in logged.records] == [True]
    assert not [value for value in played.said if isinstance(value, control.Bound)]
    return reason


def test_those_who_know_each_other_play(authority: Path) -> None:
    played = Played(identity(authority, Role.CONTROLLER))
    assert played.with_agent(identity(authority, Role.AGENT)) == "aborted: it worked"
    assert [type(value) for value in played.said] == [control.Bound]


def test_another_authority_and_expired_certificates_are_refused_in_the_handshake(
    authority: Path, tmp_path: Path
) -> None:
    make_authority(tmp_path / "other", name="other")
    controller, agent = identity(authority, Role.CONTROLLER), identity(authority, Role.AGENT)
    assert "CERTIFICATE_VERIFY_FAILED" in refused(Played(controller), identity(tmp_path / "other", Role.AGENT))
    old = identity(authority, Role.CONTROLLER, age=2 * DAY)
    assert "CERTIFICATE_VERIFY_FAILED: certificate has expired" in refused(Played(old), agent)
    assert "the controller is gone" in refused(Played(controller), identity(authority, Role.AGENT, age=2 * DAY))
    assert "CERTIFICATE_VERIFY_FAILED" in refused(Played(identity(authority, Role.AGENT)), agent)
    assert "the controller is gone" in refused(Played(controller), controller)


def test_an_agent_that_waits_says_once_why_it_does_not_connect(authority: Path, tmp_path: Path) -> None:
    make_authority(tmp_path / "other", name="other")
    said: list[str] = []
    played = Played(identity(authority, Role.CONTROLLER))

    def report(line: str) -> None:
        said.append(line)
        played.deadline.reschedule(asyncio.get_running_loop().time() + 1.2)  # enough for another attempt

    played.with_agent(identity(tmp_path / "other", Role.AGENT), stays=True, report=report)
    assert len(said) == 1
    assert "the TLS handshake failed (CERTIFICATE_VERIFY_FAILED" in said[0]


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.VIEWER])
def test_other_roles_are_no_agents(authority: Path, role: Role, caplog: pytest.LogCaptureFixture) -> None:
    assert role in refused(Played(identity(authority, Role.CONTROLLER)), identity(authority, role), logged=caplog)


def test_a_revoked_identity_is_refused_and_one_issued_after_it_is_not(
    authority: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    played = Played(identity(authority, Role.CONTROLLER))
    old = identity(authority, Role.AGENT, name="west")
    revoke(authority, "west")
    new = identity(authority, Role.AGENT, name="west")
    try:
        assert "the certificate of west was revoked" in refused(played, old, logged=caplog)
        assert played.with_agent(new) == "aborted: it worked"
    finally:
        (authority / LIST).unlink()


def test_the_name_is_that_of_the_certificate(authority: Path, caplog: pytest.LogCaptureFixture) -> None:
    east = identity(authority, Role.AGENT, name="east")
    said = "its certificate is that of agent east, not of west"
    assert said in refused(Played(identity(authority, Role.CONTROLLER)), east, logged=caplog)


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({}, None),
        ({"now": datetime.now(UTC) - 2 * DAY}, "has expired"),
        ({"role": Role.VIEWER}, "belongs to viewer west"),
        ({"name": "east"}, "belongs to agent east, not to agent west"),
        ({"secret": SECRET[::-1]}, "the token is not the controller's: nothing was sent that could be used"),
    ],
)
def test_a_token_lets_in_whom_it_names(claims: dict[str, Any], says: str | None) -> None:
    token = issue_token(**{"secret": SECRET, "name": "west", "role": Role.AGENT, "valid": DAY} | claims)
    played = Played(None, SECRET)
    assert (says or "it worked") in (played.with_agent(None, token) if says is None else refused(played, None, token))


def test_a_strangers_token_and_ours_at_a_stranger_are_refused_and_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []

    def noted(*value: Any) -> bytes:
        sent.append(encode_agent(*value))
        return sent[-1]

    monkeypatch.setattr(control_link, "encode_agent", noted)
    token = issue_token(SECRET, "west", role=Role.AGENT, valid=DAY)
    for own in (SECRET, token):
        reason = refused(Played(None, SECRET[::-1]), None, own)
        assert "the token is not" in reason
    assert sent
    assert not any(SECRET.encode() in one or token.rpartition(".")[2].encode() in one for one in sent)


def altered(sealer: Sealer, value: Any, job: int | None) -> bytes:
    """By somebody who knows the key of the token but not the controller's: it plays at another address."""
    signed = decode_controller(_ENCODE(sealer, value, job)).value
    message = signed.message.replace(HOST.encode(), OTHER_HOST.encode())
    statement = sealer.binding.statement(Purpose.DESCRIPTION, message, number=1)
    return encode_controller(replace(signed, message=message, code=code_of(sealer.key, statement)))


def altered_on_the_way(sealer: Sealer, value: Any, job: int | None) -> bytes:
    return _ENCODE(sealer, value, job).replace(HOST.encode(), OTHER_HOST.encode())


def not_signed(sealer: Sealer, value: Any, job: int | None) -> bytes:
    return encode_controller(value, job)


def of_another_run(sealer: Sealer, value: Any, job: int | None) -> bytes:
    """Recorded when the same controller gave the same agent a run; the key is the same."""
    earlier = Sealer(replace(sealer.binding, agent_nonce=bytes(16)), sealer.key, sealer.signer)
    return _ENCODE(earlier, value, job)


def without_an_identity(sealer: Sealer, value: Any, job: int | None) -> bytes:
    return _ENCODE(Sealer(sealer.binding, sealer.key), value, job)


_ENCODE = Sealer.encode


@pytest.mark.parametrize(
    ("encode", "says"),
    [
        (altered, "its signature is not that of its signer"),
        (altered_on_the_way, "was altered, or is for a different run or agent"),
        (not_signed, "unsigned run description"),
        (of_another_run, "was altered, or is for a different run or agent"),
        (without_an_identity, "is not signed with a controller's identity"),
    ],
)
def test_a_description_that_the_controller_did_not_make_for_this_run_is_refused(
    authority: Path, encode: Callable[..., bytes], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sealer, "encode", lambda *of: encode(*of) if isinstance(of[1], control.Setup) else _ENCODE(*of))
    played = Played(identity(authority, Role.CONTROLLER))
    assert says in refused(played, identity(authority, Role.AGENT))
    assert len(played.said) == 1
    assert says in played.said[0].reason


@pytest.mark.parametrize(
    ("host", "limits", "says"),
    [("1.1.1.1", Limits(), "rank 0 is at 1.1.1.1"), ("127.0.0.1", Limits(rate_bps=10**9), "rank 0 has no rate cap")],
)
def test_a_certified_controller_may_not_widen_what_the_agent_allows(
    authority: Path, host: str, limits: Limits, says: str
) -> None:
    played = Played(identity(authority, Role.CONTROLLER), place=control.RankPlace(0, host, 1, 1))
    assert says in refused(played, identity(authority, Role.AGENT), limits=limits)
    assert [type(value) for value in played.said] == [control.Abort]
