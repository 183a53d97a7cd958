import pytest

from emulator.errors import PlanError
from emulator.option import options_of
from emulator.transports.registry import VerbsOptions


def test_defaults_leave_the_choice_to_the_host() -> None:
    options = VerbsOptions()
    assert (options.device_name, options.gid_index_or_none) == ("", None)
    assert not options.is_software("10.0.0.1")


def test_text_and_values() -> None:
    texts = {"verbs_device": "mlx5_1", "gid_index": "3", "path_mtu": "4096", "qp_timeout": "nccl", "dscp": "3"}
    options = VerbsOptions.parse(texts)
    assert (options.device_name, options.gid_index_or_none, options.path_mtu) == ("mlx5_1", 3, 4096)
    assert (options.traffic_class, options.described()["timeout_ns"]) == (12, (4096 << 20, "ns"))


def test_software_ends_are_named_by_address() -> None:
    options = VerbsOptions(software_nic="10.0.0.1,fd00::1")
    assert [options.is_software(host) for host in ("10.0.0.1", "10.0.0.2", "fd00:0::1")] == [True, False, True]
    assert VerbsOptions(software_nic="all").is_software("10.0.0.2")


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("software_nic", "10.0.0", "--software-nic '10.0.0': numeric IP addresses separated by commas are needed"),
        ("path_mtu", "1500", "--path-mtu 1500: there are 256, 512, 1024, 2048, 4096"),
        ("ring_slots", "0", "--ring-slots 0: from 1 to 128"),
        ("gid_index", "x", "--gid-index 'x': give a whole number"),
        ("qps", "2", "the verbs transport has no option 'qps'; it has verbs_device, gid_index"),
    ],
)
def test_what_cannot_be_is_refused(field: str, text: str, message: str) -> None:
    with pytest.raises(PlanError) as raised:
        VerbsOptions.parse({field: text})
    assert message in str(raised.value)


def test_every_option_says_what_it_is() -> None:
    assert all(one.text.endswith(")") for one in options_of(VerbsOptions))
