"""A token is good for its holder, its role and its time, and only with its secret."""

from datetime import UTC, datetime, timedelta

import pytest

from emulator.annexes.launch.authority import issue_token
from emulator.control.certificates.roles import Role
from emulator.control.certificates.tokens import Holder, holder_of, key_of_claims
from emulator.control.wire.credentials import key_and_claims
from emulator.errors import InputError

SECRET, HOUR = "a secret of the lab, long enough for HS256", timedelta(hours=1)


def token(name: str = "west", role: Role = Role.AGENT, *, age: timedelta = timedelta()) -> str:
    return issue_token(SECRET, name, role=role, valid=HOUR, now=datetime.now(UTC) - age)


def test_it_names_its_holder() -> None:
    assert holder_of(token("ada", Role.VIEWER), SECRET) == Holder("ada", Role.VIEWER)


def test_the_controller_finds_the_agents_key_from_the_claims_alone() -> None:
    key, claims = key_and_claims(token())
    assert key_of_claims(claims, SECRET, "west") == key
    assert key.decode() not in claims


def test_a_shared_secret_is_its_own_key() -> None:
    assert key_and_claims("0f3a.secret") == (b"0f3a.secret", "")


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (token(age=2 * HOUR), "has expired"),
        (token("east"), "belongs to agent east, not to agent west"),
        (token(role=Role.OPERATOR), "belongs to operator west, not to agent west"),
        ("eyJ9.eyJ9.x", "is not one of the controller's secret"),
        ("eyJhbGciOiJub25lIn0.eyJzdWIiOiJ3ZXN0In0.", "is not one of the controller's secret"),  # algorithm "none"
        ("eyJ\x00\ud800.x.y", "is not one of the controller's secret"),
    ],
)
def test_other_claims_are_refused(made: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        key_of_claims(key_and_claims(made)[1], SECRET, "west")


def test_another_secret_makes_another_token() -> None:
    with pytest.raises(InputError, match="is not one of the controller's secret"):
        holder_of(token(), SECRET[::-1])


def test_a_secret_that_can_be_guessed_is_refused() -> None:
    for use in (lambda: issue_token("short", "a", role=Role.AGENT, valid=HOUR), lambda: holder_of(token(), "short")):
        with pytest.raises(InputError, match="at least 32 characters"):
            use()
