from fractions import Fraction
from pathlib import Path

import pytest

from emulator.device.profile.load import find_profile, load_profile
from emulator.device.profile.profile import (
    Above,
    Delay,
    Drop,
    Duplicate,
    Every,
    FrameShare,
    Mark,
    Moment,
    Once,
    Police,
    PortDown,
    Profile,
    Rate,
    Shape,
)
from emulator.errors import InputError, TopologyError
from emulator.topology.network import End

SHIPPED = sorted((Path(__file__).parents[4] / "lab" / "profiles").glob("*.yaml"))


def read(tmp_path: Path, text: str) -> Profile:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    return load_profile(path)


def test_every_action_is_read_with_its_units(tmp_path: Path) -> None:
    profile = read(
        tmp_path,
        """
rules:
  - drop: {share: 0.5%}
  - drop: {every: 50}
  - mark: {above: 95%, burst: 30K}
  - police: {rate: 50Mbit}
  - shape: {rate: 90%, queue: 64K}
  - delay: {time: 1.5ms, jitter: 10us, reorder: 2%}
  - duplicate: {every: 3}
  - {port: "sw0:p1", state: down, start: 1.5, end: 2}
""",
    )
    assert [rule.action for rule in profile.rules] == [
        Drop(FrameShare(Fraction(1, 200))),
        Drop(Every(50)),
        Mark(Above(Rate(share=Fraction(95, 100)), 30 << 10)),
        Police(Above(Rate(bps=50_000_000), 16 << 10)),
        Shape(Rate(share=Fraction(9, 10)), 64 << 10),
        Delay(1_500_000, 10_000, Fraction(2, 100)),
        Duplicate(Every(3)),
        PortDown(),
    ]
    last = profile.rules[-1]
    assert (last.name, last.ports, last.start, last.end) == ("state-7", (End("sw0", "p1"),), Moment(1.5), Moment(2))
    assert not profile.rules[0].is_timed
    assert profile.name == "p"


def test_frames_are_selected_by_class_flow_and_port(tmp_path: Path) -> None:
    rule = read(
        tmp_path,
        """
rules:
  - name: flow
    drop: {every: 1}
    opcode: [middle, nak, 0x81]
    source: 198.18.1.0/24
    destination: 198.18.2.7
    source_port: 49152
    queue_pair: 17
    port: ["leaf0:p1", "leaf0:p2"]
    arriving: "leaf0:u0"
""",
    ).rules[0]
    match = rule.match
    assert [one.name for one in match.opcodes] == ["middle", "nak", "0x81"]
    assert (match.source, match.destination, match.source_port, match.queue_pair) == (
        "198.18.1.0/24",
        "198.18.2.7",
        49152,
        17,
    )
    assert (rule.ports, match.arriving) == ((End("leaf0", "p1"), End("leaf0", "p2")), (End("leaf0", "u0"),))


@pytest.mark.parametrize(("text", "psns"), [("7", (7, 7)), ("100-120", (100, 120)), ("0-16777215", (0, 0xFFFFFF))])
def test_frames_are_selected_by_psn_and_only_once(tmp_path: Path, text: str, psns: tuple[int, int]) -> None:
    (rule,) = read(tmp_path, f"rules:\n  - {{drop: {{once: true}}, psn: {text}}}\n").rules
    assert (rule.action, rule.match.psns) == (Drop(Once()), psns)
    assert str(rule.action) == "drop once"


@pytest.mark.parametrize(
    ("rule", "line", "problem"),
    [
        ("drop: {share: 0.5}", 2, "rules[0].drop.share: has no unit: write, for example, 0.5%"),
        ("drop: {share: 5}", 2, "rules[0].drop.share: has no unit: write, for example, 0.5%"),
        ("drop: {share: '0.5'}", 2, "'0.5' is not a share: write a percentage"),
        ("drop: {share: 101%}", 2, "'101%' is not a share"),
        ("drop: {once: false}", 2, "rules[0].drop.once: "),
        ("{drop: {once: true}, psn: 9-3}", 2, "rules[0].psn: '9-3' is not a range of PSNs"),
        ("{drop: {once: true}, psn: 1-16777216}", 2, "rules[0].psn: '1-16777216' is not a range of PSNs"),
        ("{drop: {once: true}, psn: 16777216}", 2, "rules[0].psn: "),
        ("{drop: {once: true}, psn: 5, traffic: any}", 2, "is any, but only RoCEv2 frames have psn"),
        ("{shape: {rate: 90%}, psn: 5}", 2, "selects frames, but shape applies to a whole port"),
        ("drop: {share: 1%, every: 2}", 2, "rules[0].drop: needs exactly one of share, every and once"),
        ("mark: {}", 2, "rules[0].mark: needs exactly one of share, every, once and above"),
        ("mark: {above: fast}", 2, "rules[0].mark.above: 'fast' is not a rate"),
        ("police: {rate: 1kbit}", 2, "rules[0].police.rate: '1kbit' is below 8 kbit/s"),
        ("police: {rate: 90%, burst: 9T}", 2, "rules[0].police.burst: '9T' is not between 1 byte and 4 GiB"),
        ("name: x", 2, "rules[0]: needs exactly one of drop, duplicate, mark"),
        ("{drop: {every: 2}, shape: {rate: 90%}}", 2, "rules[0]: needs exactly one of"),
        (
            "{drop: {every: 2}, opcode: center}",
            2,
            "rules[0].opcode: 'center' is not a class of opcodes; there are first,",
        ),
        (
            "{shape: {rate: 90%}, opcode: middle}",
            2,
            "rules[0].opcode: selects frames, but shape applies to a whole port",
        ),
        ("{drop: {every: 2}, source: 10.0.0.1/8}", 2, "rules[0].source: '10.0.0.1/8' is not an address or prefix"),
        ("{drop: {every: 2}, opcode: ack, traffic: any}", 2, "rules[0].traffic: is any, but only RoCEv2"),
        ("{drop: {every: 2}, source: }", 2, "rules[0].source: has no value: give one, or delete the key"),
        ("{drop: {every: 2}, start: 3, end: 3}", 2, "rules[0].end: is not after its start"),
        ("{drop: {every: 2}, port: p1}", 2, "rules[0].port: 'p1' is not a port: write switch:port"),
        ("{drop: {every: 2}, arriving: ['sw0:p0', ':p1']}", 2, "rules[0].arriving: ':p1' is not a port"),
        ("{drop: {every: 2}, opcode: 256}", 2, "rules[0].opcode: expected int <= 255"),
        ("drop: {every: 0}", 2, "rules[0].drop.every: expected int >= 1"),
        ("mark: {share: 1%, burst: 16K}", 2, "rules[0].mark: burst needs above"),
        ("{drop: {every: 2}, traffic: tcp}", 2, "rules[0].traffic: 'tcp' is not one of any, roce"),
        ("{shape: {rate: 90%, queue: deep}}", 2, "rules[0].shape.queue: 'deep' is not a size"),
        ("drop: {share: 1/0%}", 2, "rules[0].drop.share: '1/0%' is not a share"),
        ("state: down", 2, "rules[0].state: needs a port"),
        ("delay: {time: 5}", 2, "rules[0].delay.time: has no unit: write, for example, 100us"),
        ("delay: {time: 5 weeks}", 2, "rules[0].delay.time: '5 weeks' is not a time"),
        ("dorp: {every: 2}", 2, "rules[0]: unknown key 'dorp'; did you mean 'drop'?"),
        (
            "{drop: {every: 2}, name: a}\n- {drop: {every: 2}, name: a}",
            3,
            "rules[1].name: another rule is already named",
        ),
    ],
)
def test_an_error_names_file_line_and_key(tmp_path: Path, rule: str, line: int, problem: str) -> None:
    with pytest.raises(TopologyError) as caught:
        read(tmp_path, f"rules:\n- {rule}\n")
    assert str(caught.value).startswith(f"{tmp_path}/p.yaml:{line}, ")
    assert problem in str(caught.value)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_profile_loads_by_its_name(path: Path) -> None:
    assert find_profile(path.stem).samefile(path)
    profile = load_profile(path)
    assert profile.name == path.stem
    assert profile.description


def test_the_documented_profiles_are_shipped() -> None:
    assert {path.stem for path in SHIPPED} >= {"fw-a", "fw-b", "ecn-marker", "slow-port", "policer", "lossy-link"}


def test_an_unknown_profile_is_refused_with_a_list_of_known_ones() -> None:
    with pytest.raises(InputError, match=r"no profile 'fw-z'.*fw-a, fw-b"):
        find_profile("fw-z")


def test_the_digest_changes_with_the_file(tmp_path: Path) -> None:
    assert read(tmp_path, "rules: []").digest != read(tmp_path, "rules: [] # again").digest
