"""A run description opens once, in its place of its conversation, and nowhere else."""

from contextlib import suppress
from dataclasses import replace

import pytest

from emulator.control import conversation as control
from emulator.control.authentication import Binding, Purpose, code_of, is_code_of
from emulator.control.wire.codec import encode_controller
from emulator.control.wire.descriptions import DESCRIPTIONS, Opener, Sealer
from emulator.errors import RemoteProtocolError

BINDING, KEY = Binding("run", "west", b"a" * 16, b"c" * 16), b"key"
FIRST, SECOND = (
    control.Directory({0: control.Address("127.0.0.1", 1)}),
    control.Directory({0: control.Address("127.0.0.2", 1)}),
)
REFUSED = "was altered, or is for a different run or agent"


def test_descriptions_open_in_their_order() -> None:
    sealer, opener = Sealer(BINDING, KEY), Opener(BINDING, KEY)
    assert [opener.decode(sealer.encode(one, 3)) for one in (FIRST, SECOND)] == [(FIRST, 3), (SECOND, 3)]


def test_a_repeated_one_is_refused() -> None:
    sealer, opener = Sealer(BINDING, KEY), Opener(BINDING, KEY)
    sent = sealer.encode(FIRST, 0)
    opener.decode(sent)
    with pytest.raises(RemoteProtocolError, match=REFUSED):
        opener.decode(sent)


@pytest.mark.parametrize(
    "other",
    [
        replace(BINDING, run_id="other"),
        replace(BINDING, agent="east"),
        replace(BINDING, agent_nonce=b"b" * 16),
        replace(BINDING, controller_nonce=b"b" * 16),
        replace(BINDING, run_id="runw", agent="est"),  # the same bytes, cut elsewhere
    ],
)
def test_one_of_another_conversation_is_refused(other: Binding) -> None:
    with pytest.raises(RemoteProtocolError, match=REFUSED):
        Opener(BINDING, KEY).decode(Sealer(other, KEY).encode(FIRST, 0))


def test_one_made_with_another_key_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match=REFUSED):
        Opener(BINDING, KEY).decode(Sealer(BINDING, b"guess").encode(FIRST, 0))


def test_no_altered_byte_alters_the_description() -> None:
    sent = Sealer(BINDING, KEY).encode(FIRST, 0)
    for place in range(len(sent)):
        damaged = bytearray(sent)
        damaged[place] ^= 1
        with suppress(RemoteProtocolError):
            opened = Opener(BINDING, KEY).decode(bytes(damaged))
            assert opened == (FIRST, 0) or not isinstance(opened.value, DESCRIPTIONS)


def test_nothing_else_may_be_signed_and_nothing_else_must_be() -> None:
    content = encode_controller(control.Finish(), 0)
    code = code_of(KEY, BINDING.statement(Purpose.DESCRIPTION, content, number=1))
    with pytest.raises(RemoteProtocolError, match="the controller signed Finish, not a run description"):
        Opener(BINDING, KEY).decode(encode_controller(control.Signed(content, code)))
    assert Opener(BINDING, KEY).decode(content).value == control.Finish()


def test_a_code_of_one_side_is_none_of_the_other() -> None:
    code = code_of(KEY, BINDING.statement(Purpose.CONTROLLER))
    assert is_code_of(KEY, BINDING.statement(Purpose.CONTROLLER), code)
    assert not is_code_of(KEY, BINDING.statement(Purpose.AGENT), code)
