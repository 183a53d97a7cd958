"""Events of a run spec: what they mean, and those that are refused."""

from pathlib import Path
from typing import Any

import pytest

from emulator.device.profile.profile import Command, Moment, PortDown, Rate, Shape
from emulator.errors import EventError, InputError, PlanError, TopologyError
from emulator.experiment.play.session_plan import watch_dut
from emulator.experiment.settle.defaults import resolve
from emulator.experiment.settle.events import check_schedule, describe_schedule, refuse_commands, schedule_of
from emulator.experiment.settle.testbed import Testbed
from emulator.experiment.spec.document import read_experiment
from emulator.experiment.spec.event_spec import Event
from emulator.experiment.spec.spec import Device, Experiment, Network
from emulator.schema import SchemaProblem, decode
from emulator.topology.load import load_topology

LAB = load_topology(Path(__file__).parents[3] / "topologies" / "two-hosts-switch.yaml", ranks=2)
DOWN = {"at": "2s", "port": "sw0:p1", "down": "300ms"}


def event(**given: Any) -> Event:
    return decode(DOWN | given, Event)


def without(**given: Any) -> Event:
    """An event that takes no link down."""
    return decode({"at": "2s"} | given, Event)


def test_times_count_from_the_first_iteration_or_from_one_that_is_named() -> None:
    one, other = event(), event(at="iteration 3", down=True)
    assert (one.iteration, one.after_ns, one.lasts_ns) == (None, 2_000_000_000, 300_000_000)
    assert (other.iteration, other.after_ns, other.lasts_ns) == (3, 0, None)
    assert without(port="sw0:p1", shape="10%", **{"for": "1ms"}).lasts_ns == 1_000_000


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"at": "soon"}, "at: 'soon': write a time, such as 2s, or iteration 3"),
        ({"at": "iteration -1"}, "write a time, such as 2s, or iteration 3"),
        ({"at": 2}, "has no unit"),
        ({"port": "sw0"}, "port: 'sw0' is not a port: write switch:port"),
        ({"down": False}, "down: give how long, such as 300ms, or true"),
        ({"down": "0ms"}, "down: give a time above 0"),
        ({"down": "300"}, "is not a time: give a number with a unit"),
        ({"for": "1s"}, "for: write how long the link is down as down: 300ms"),
        ({"shape": "1Mbit"}, "needs exactly one of down, shape, profile and do"),
        ({"limit": "1s"}, "limit: is for how long a command"),
        ({"ports": "sw0:p1"}, "unknown key 'ports'; did you mean 'port'"),
    ],
)
def test_what_an_event_cannot_be_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(SchemaProblem, match=problem):
        event(**given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"port": "sw0:p1"}, "needs exactly one of down, shape, profile and do"),
        ({"do": []}, "do: write a list: the command and its arguments"),
        ({"do": ["", "a"]}, "do: write a list: the command and its arguments"),
        ({"do": ["a", "b\0"]}, "do: write a list: the command and its arguments"),
        ({"do": "ls /"}, "do: "),
        ({"do": ["ls"], "port": "sw0:p1"}, "port: leave it out: a command"),
        ({"do": ["ls"], "for": "1s"}, "for: leave it out: a command"),
        ({"do": ["ls"], "limit": "0s"}, "limit: give a time above 0, at most one hour"),
        ({"do": ["ls"], "limit": "3601s"}, "limit: give a time above 0, at most one hour"),
        ({"do": ["ls"], "profile": "fw-b"}, "needs exactly one of"),
        ({"shape": "1Mbit"}, "needs a port"),
        ({"profile": "fw-b", "port": "sw0:p1"}, "a profile has ports of its own: leave out port"),
        ({"profile": "fw-b", "for": "0s"}, "for: give a time above 0"),
        ({"port": "sw0:p1", "shape": "7kbit"}, "below 8 kbit/s"),
        ({"port": "sw0:p1", "shape": "110%"}, "is not a share"),
    ],
)
def test_the_same_without_a_link_down(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(SchemaProblem, match=problem):
        without(**given)


def test_the_file_and_its_line_are_named(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("charkha: 1\njobs: [{trace: {path: t}}]\nevents:\n- {at: 1s, port: 'a:b', down: 1s}\n- {at: 1s}\n")
    with pytest.raises(TopologyError, match=r"run\.yaml:5, events\[1\]: needs exactly one of"):
        read_experiment(path)


def test_a_run_spec_is_written_as_it_was_read() -> None:
    plain = {"at": "1s", "port": "sw0:p1", "shape": "1Mbit", "for": "5ms"}
    spec = decode(
        {"jobs": [{"trace": {"path": "t"}}], "events": [plain, {"at": "2s", "port": "a:b", "down": True}]}, Experiment
    )
    assert spec.to_plain()["events"] == [plain, {"at": "2s", "port": "a:b", "down": True}]
    assert decode(spec.to_plain(), Experiment) == spec
    assert spec.for_job("job") is spec


def test_an_event_becomes_a_rule_of_the_schedule() -> None:
    shape = without(at="iteration 1", port="sw0:p0", shape="50%", **{"for": "1s"})
    down, slow = schedule_of(Device(), [event(), shape], iterations=2).rules
    assert (down.name, down.action, down.start, down.end) == ("events[0]", PortDown(), Moment(2.0), Moment(2.3))
    assert isinstance(slow.action, Shape)
    assert isinstance(slow.action.rate, Rate)
    assert (slow.start, slow.end) == (Moment(0, 1), Moment(1, 1))
    assert describe_schedule(schedule_of(Device(), [event(down=True)], iterations=2))[0][1:] == (
        "2 s", "the end", "sw0:p1", "port down",
    )  # fmt: skip


def test_an_iteration_that_is_not_played_is_refused_if_their_number_is_known() -> None:
    late = [event(), event(at="iteration 5")]
    with pytest.raises(EventError, match=r"events\[1\]\.at: is after the end of the run.*is iteration 4"):
        schedule_of(Device(), late, iterations=5)
    assert len(schedule_of(Device(), late, iterations=None).rules) == 2


def test_a_profile_that_does_not_exist_is_refused_at_its_event() -> None:
    with pytest.raises(EventError, match=r"events\[0\]\.profile: there is no profile 'fw-x'"):
        schedule_of(Device(), [without(profile="fw-x")], iterations=None)


@pytest.mark.parametrize(
    ("port", "problem"),
    [
        ("sw0:p9", r"events\[0\]\.port: switch sw0 has no port 'p9'; it has p0, p1"),
        ("h0:eth0", "there is no switch 'h0'"),
    ],
)
def test_a_port_that_does_not_exist_is_refused(port: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        check_schedule(schedule_of(Device(), [event(port=port)], iterations=None), LAB, frame_bytes=1250)


def test_a_command_is_planned_on_this_host_with_a_limit() -> None:
    asked = [without(do=["env", "a b"]), without(do=["env"], limit="1500ms", at="iteration 1")]
    schedule = schedule_of(Device(), asked, iterations=2)
    first, second = schedule.rules
    assert (first.action, first.start, first.end) == (Command(("env", "a b"), 30.0), Moment(2.0), None)
    assert (second.action, second.start) == (Command(("env",), 1.5), Moment(0, 1))
    assert describe_schedule(schedule)[0][1:] == ("2 s", "at most 32 s", "this host", "run env 'a b'")
    check_schedule(schedule, LAB, frame_bytes=1250)
    with pytest.raises(EventError, match=r"events\[1\]\.do: there is no program 'no-such-program' here"):
        check_schedule(
            schedule_of(Device(), [asked[0], without(do=["no-such-program"])], iterations=2), LAB, frame_bytes=1
        )


def test_commands_are_refused_unless_they_are_allowed() -> None:
    refuse_commands([event()])
    with pytest.raises(EventError, match=r"events\[1\]\.do: runs a command .*--allow-commands"):
        refuse_commands([event(), without(do=["ls"])])


def test_a_command_needs_no_lab_and_other_events_do() -> None:
    resolved = resolve(Experiment.of_trace("t"), LAB)
    assert watch_dut(Device(), resolved, Testbed(LAB), events=[without(do=["env"])]).events() is None
    with pytest.raises(PlanError, match="events need a lab"):
        watch_dut(Device(), resolved, Testbed(LAB), events=[without(do=["env"]), event()])


def test_events_need_a_lab() -> None:
    resolved = resolve(Experiment.of_trace("t"), LAB)
    with pytest.raises(PlanError, match="events need a lab, but this run is not in one: `charkha lab up "):
        watch_dut(Device(), resolved, Testbed(LAB), events=[event()])


@pytest.mark.parametrize(
    ("rate", "events", "asked", "expected"),
    [
        ("1Gbit", [DOWN], {}, "1ms"),
        ("100Mbit", [DOWN], {}, "10ms"),
        ("20Mbit", [DOWN], {}, "100ms"),
        ("1Gbit", [DOWN], {"timeline": "off"}, "off"),
        ("1Gbit", [{"at": "1s", "port": "sw0:p1", "shape": "10%"}], {}, "off"),
        ("1Gbit", [{"at": "1s", "do": ["env"]}], {}, "1ms"),
        ("1Gbit", [], {}, "off"),
    ],
)
def test_links_that_go_down_turn_the_timeline_on(
    tmp_path: Path, rate: str, events: list[dict[str, Any]], asked: dict[str, str], expected: str
) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(Path(str(LAB.source)).read_text().replace("1Gbit", rate))
    network = Network(topology=str(path))
    spec = decode(Experiment.of_trace("t", network=network).to_plain() | {"events": events}, Experiment)
    part = spec.to_plain()
    part["network"]["transport"] = {"options": asked}
    resolved = resolve(decode(part, Experiment), load_topology(path, ranks=2))
    assert resolved.roce.timeline == expected
