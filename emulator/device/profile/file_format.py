"""The keys of a profile file, as types. `json_schema(ProfileFile)` exports them as JSON Schema."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from emulator.schema import Section, require_one_of

ACTIONS = ("drop", "duplicate", "mark", "police", "shape", "delay", "state")
"""Keys of a rule of which it has exactly one."""
EXAMPLES = {"share": "0.5%", "reorder": "0.5%", "above": "90Mbit or 90%", "rate": "90Mbit or 90%"} | dict.fromkeys(
    ("time", "jitter"), "100us"
)
"""Keys whose values have a unit, with an example of one."""

Name = Annotated[str, Meta(min_length=1)]
Share = Annotated[str, Meta(description="of frames: 0.5%")]
Every = Annotated[int, Meta(ge=1, le=0xFFFF_FFFF, description="one of this many frames, beginning with the first")]
Once = Annotated[Literal[True], Meta(description="only the first frame")]
Psn = Annotated[int, Meta(ge=0, le=0xFF_FFFF)] | Annotated[str, Meta(pattern=r"^\d{1,8}-\d{1,8}$")]
Rate = Annotated[str, Meta(description="with its unit: 90Mbit; or of the rate of the port: 90%")]
Size = Annotated[str | int, Meta(description="bytes: 64K")]
Duration = Annotated[str, Meta(description="with its unit: 100us")]
Ports = Annotated[str | Annotated[tuple[str, ...], Meta(min_length=1)], Meta(description="switch:port, or a list")]
Opcode = Annotated[int, Meta(ge=0, le=0xFF)] | str
Opcodes = Annotated[
    Opcode | Annotated[tuple[Opcode, ...], Meta(min_length=1)],
    Meta(description="classes of BTH opcodes, or opcodes by number"),
]


class SelectionSection(Section, frozen=True, kw_only=True):
    """The frames that a rule drops or duplicates."""

    share: Share | None = None
    every: Every | None = None
    once: Once | None = None

    def __post_init__(self) -> None:
        require_one_of(self, "share", "every", "once")


class MarkSection(Section, frozen=True, kw_only=True):
    """The frames that a rule marks."""

    share: Share | None = None
    every: Every | None = None
    once: Once | None = None
    above: Rate | None = None
    burst: Size | None = None

    def __post_init__(self) -> None:
        require_one_of(self, "share", "every", "once", "above")
        if self.burst is not None and self.above is None:
            raise ValueError("burst needs above")


class PoliceSection(Section, frozen=True, kw_only=True):
    """A rate beyond which frames are lost."""

    rate: Rate
    burst: Size | None = None


class ShapeSection(Section, frozen=True, kw_only=True):
    """A rate at which a port sends."""

    rate: Rate
    queue: Size | None = None


class DelaySection(Section, frozen=True, kw_only=True):
    """A time by which frames leave later."""

    time: Duration
    jitter: Duration | None = None
    reorder: Share | None = None


class ProfileRuleSection(Section, frozen=True, kw_only=True):
    """A rule: one action, and the frames or ports it applies to."""

    name: Annotated[Name, Meta(description="of its counters; default: the action and a number")] | None = None
    drop: SelectionSection | None = None
    duplicate: SelectionSection | None = None
    mark: MarkSection | None = None
    police: PoliceSection | None = None
    shape: ShapeSection | None = None
    delay: DelaySection | None = None
    state: Annotated[Literal["down"], Meta(description="of the link of the port")] | None = None
    opcode: Opcodes | None = None
    source: Annotated[str, Meta(description="address or prefix")] | None = None
    destination: Annotated[str, Meta(description="address or prefix")] | None = None
    source_port: Annotated[int, Meta(ge=0, le=0xFFFF)] | None = None
    queue_pair: Annotated[int, Meta(ge=0, le=0xFF_FFFF, description="destination queue pair")] | None = None
    psn: Annotated[Psn, Meta(description="packet sequence number, or a range: 100-120")] | None = None
    traffic: Literal["roce", "any"] | None = None
    port: Ports | None = None
    arriving: Ports | None = None
    start: Annotated[float, Meta(ge=0, description="seconds into the run")] | None = None
    end: Annotated[float, Meta(gt=0, description="seconds into the run")] | None = None

    def __post_init__(self) -> None:
        require_one_of(self, *ACTIONS)

    @property
    def action(self) -> str:
        """The key of its action."""
        return next(name for name in ACTIONS if getattr(self, name) is not None)


class ProfileFile(Section, frozen=True, kw_only=True):
    """A Charkha firmware profile."""

    name: Annotated[Name, Meta(description="for people; default: the name of the file")] | None = None
    description: str = ""
    rules: Annotated[tuple[ProfileRuleSection, ...], Meta(description="applied in this order; none: a clean device")]
