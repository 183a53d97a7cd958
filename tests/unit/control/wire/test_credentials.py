import os
from pathlib import Path

import pytest

from emulator.control import authentication
from emulator.control.authentication import TOKEN_VARIABLE
from emulator.control.wire.credentials import read_token, require_protection, tls_files
from emulator.control.wire.tls import TlsFiles
from emulator.errors import InputError

SHORT, LONG_ENOUGH = "x" * 15, "x" * 16


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "token"


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    monkeypatch.setattr(authentication, "_taken", [])


def test_without_file_and_variable_there_is_no_token() -> None:
    assert read_token(None) is None


def test_the_token_of_a_file_has_no_white_space_around_it(file: Path) -> None:
    file.write_text(f"  {LONG_ENOUGH}\n")
    assert read_token(file) == LONG_ENOUGH


def test_a_file_goes_before_the_variable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "v" * 16)
    file.write_text(LONG_ENOUGH)
    assert read_token(file) == LONG_ENOUGH
    assert TOKEN_VARIABLE not in os.environ
    assert read_token(None) == "v" * 16


def test_white_space_does_not_make_a_short_token_long(file: Path) -> None:
    file.write_text(SHORT + "\n")
    with pytest.raises(InputError, match=rf"^{file}: a token needs at least 16 characters; .*openssl rand -hex 24"):
        read_token(file)


@pytest.mark.parametrize("text", ["", SHORT])
def test_a_short_token_in_the_variable_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, text)
    with pytest.raises(InputError, match=r"^CHARKHA_TOKEN: a token needs at least 16 characters") as error:
        read_token(None)
    assert SHORT not in str(error.value)


def test_a_file_that_is_not_text_is_refused(file: Path) -> None:
    file.write_bytes(b"\xff\xfe" * 20)
    with pytest.raises(InputError, match=f"^{file}: is not text$"):
        read_token(file)


def test_a_missing_file_is_named_with_the_reason(file: Path) -> None:
    with pytest.raises(InputError, match=rf"^{file}: cannot be read \(No such file or directory\)$"):
        read_token(file)


def test_without_tls_files_the_stream_is_not_encrypted() -> None:
    assert tls_files(None, None, None) is None


@pytest.mark.parametrize("given", [("c", None, None), (None, "k", None), (None, None, "a"), ("c", "k", "a")])
def test_any_tls_file_turns_tls_on(given: tuple[str | None, ...]) -> None:
    paths = [None if name is None else Path(name) for name in given]
    assert tls_files(*paths) == TlsFiles(*paths)


def test_an_identity_stands_alone() -> None:
    assert tls_files(None, None, None, Path("i")) == TlsFiles(identity=Path("i"))
    with pytest.raises(InputError, match="omit the --tls options"):
        tls_files(Path("c"), None, None, Path("i"))


@pytest.mark.parametrize("target", ["unix:sock", "localhost:1", "127.9.9.9:1", "[::1]:1"])
def test_control_on_this_machine_needs_no_certificates(target: str) -> None:
    require_protection(target, None, insecure=False, option="--listen")


@pytest.mark.parametrize("target", ["192.0.2.1:1", "lab.test:1", "0.0.0.0:1", "[::]:1", "[2001:db8::1]:1"])
def test_control_beyond_it_needs_certificates_or_a_word(target: str) -> None:
    require_protection(target, None, insecure=True, option="--listen")
    require_protection(target, TlsFiles(identity=Path("i")), insecure=False, option="--listen")
    for tls in (None, TlsFiles(authority=Path("a")), TlsFiles(Path("c"), Path("k"))):
        with pytest.raises(InputError, match="control would leave this machine without certificates on both sides"):
            require_protection(target, tls, insecure=False, option="--listen")
