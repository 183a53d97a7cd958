"""What serve.yaml may say."""

from pathlib import Path

import pytest

from emulator.annexes.service.configuration import DEFAULT_LISTEN, ServiceFolder, address_of, read_configuration
from emulator.errors import InputError


def place(folder: Path, text: str) -> ServiceFolder:
    (folder / "traces").mkdir()
    (folder / "serve.yaml").write_text(text)
    return ServiceFolder(folder)


def test_without_a_file_everything_has_its_default(tmp_path: Path) -> None:
    found = read_configuration(ServiceFolder(tmp_path))
    assert found.listen == DEFAULT_LISTEN
    assert address_of(found.listen).address == "127.0.0.1"


def test_paths_start_at_its_folder(tmp_path: Path) -> None:
    found = read_configuration(
        place(tmp_path, "{traces: [traces], listen: 8761, identity: me.pem}".replace("8761", "'8761'"))
    )
    assert found.traces == (str(tmp_path / "traces"),)
    assert found.identity == str(tmp_path / "me.pem")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{traces: [nowhere]}", "traces: there is no folder"),
        ("{trace: [traces]}", "unknown key 'trace'; did you mean 'traces'"),
        ("{grpc: '127.0.0.1:8761'}", "unknown key 'grpc': gRPC was removed from the service: HTTP has every operation"),
        ("{listen: 'here'}", "write a port"),
        ("{disk_quota: much}", r"serve.yaml:1, disk_quota: 'much' is not a size"),
        ("{charkha_service: 2}", "charkha_service"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_configuration(place(tmp_path, text))


@pytest.mark.parametrize("listen", ["0.0.0.0:8760", "[::]:8760", "192.0.2.1:8760"])
def test_tokens_cross_no_network_in_clear(tmp_path: Path, listen: str) -> None:
    with pytest.raises(InputError, match="tokens would cross the network in clear"):
        read_configuration(ServiceFolder(tmp_path), listen=listen)
    assert read_configuration(place(tmp_path, "{identity: me.pem}"), listen=listen).listen == listen
