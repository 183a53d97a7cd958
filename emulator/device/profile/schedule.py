"""What the device does during a run, and when: the rules of its profile, and those that events of the run spec make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from emulator.device.profile.profile import Action, Moment, Profile, ProfileRule
from emulator.errors import EventError, InputError
from emulator.topology.network import End


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """An event of a run spec: an action, at a port if it is one of a switch, or a profile in force.

    Attributes:
        end: None: to the end of the run.
    """

    start: Moment
    end: Moment | None
    port: End | None = None
    action: Action | None = None
    profile: Profile | None = None


class Schedule:
    """All rules of a run.

    Args:
        profile: in force for the whole run, except for those of its rules that have times; None: there is none.
        events: in the order of the run spec.
    """

    def __init__(self, profile: Profile | None, events: Sequence[PlannedEvent] = ()) -> None:
        self.profile = profile
        own = list(profile.rules) if profile is not None else []
        made = [(rule, number, source) for number, one in enumerate(events) for rule, source in _rules(one, number)]
        self._sources: dict[str, tuple[Profile | None, ProfileRule, int | None]] = {
            rule.name: (profile, rule, None) for rule in own
        }
        names = Counter([rule.name for rule in own])
        self.rules: list[ProfileRule] = own
        for rule, number, source in made:
            names[rule.name] += 1
            name = rule.name if names[rule.name] == 1 else f"{rule.name}, events[{number}]"
            self.rules.append(replace(rule, name=name))
            self._sources[name] = source, rule, number

    @property
    def name(self) -> str:
        """Of what is in force, for errors."""
        return "events" if self.profile is None else self.profile.name

    def error(self, problem: str, rule: ProfileRule, *key: str | int) -> InputError:
        """An error that names the place of a rule: file, line and key of its profile, or the event."""
        source, original, number = self._sources[rule.name]
        if source is None:
            assert number is not None
            return EventError(problem, number, *map(str, key[:1]))
        if number is None:
            return source.error(problem, original, *key)
        in_file = next(one for one in source.rules if one.name == original.name)
        return EventError(str(source.error(problem, in_file, *key)), number, "profile")


def _rules(event: PlannedEvent, number: int) -> Iterator[tuple[ProfileRule, Profile | None]]:
    """The rules that an event makes, each with the profile that it comes from."""
    if event.profile is None:
        assert event.action is not None
        ports = () if event.port is None else (event.port,)
        yield ProfileRule(f"events[{number}]", event.action, ports=ports, start=event.start, end=event.end), None
        return
    for rule in event.profile.rules:
        ends = [one for one in (_shifted(rule.end, event.start), event.end) if one is not None]
        end = min(ends, key=lambda one: one.after_s, default=None)
        start = _shifted(rule.start, event.start) or event.start
        if end is None or start.after_s < end.after_s:
            yield replace(rule, start=start, end=end), event.profile


def _shifted(moment: Moment | None, start: Moment) -> Moment | None:
    return None if moment is None else Moment(start.after_s + moment.after_s, start.iteration)
