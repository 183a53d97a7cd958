"""Rules about frames as nftables text.

A bridge forwards in the bridge family's forward hook, a router in inet's. Frames of an Open vSwitch in userspace pass
neither: there, and where frames are to leave twice, the egress hook of every port's device is used, which knows where
a frame leaves and not where it came from.

Every rule has a base chain of its own, so that it can come and go while others stay; counters are objects of the table,
and stay too.

A rate is held in full frames: nftables counts bytes too, but lets a whole second's worth of them pass as a burst.
Frames of less than half the length are not counted, and pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network

from emulator.dut.opcodes import OpcodeClass
from emulator.dut.profile import Above, Drop, Duplicate, Every, Mark, Match, Police, Rule, Selection, Share
from emulator.lab.model import BRIDGE, ROUTER, Port
from emulator.planner.network.header_overhead import ETHERNET_BYTES
from emulator.roce.constants import UDP_PORT
from emulator.units import BITS_PER_BYTE

TABLE = "charkha"
COPY_MARK = 0xC4A2
"""Of the kernel's own, on frames that were copied; it never leaves the switch."""
LOSE_UNNOTICED = 'fwd to "lo"'
"""Loses a frame without telling its sender: Open vSwitch, when one frame is refused, gives up the rest of its batch. On
the loopback of the switch's namespace it is a frame for somebody else.
"""
_MINUTE_S = 60
_PARTS = 1_000_000
_FORWARD = {BRIDGE: "bridge", ROUTER: "inet"}
FAMILIES = ("bridge", "inet", "netdev")


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain: `hook` is None for one that others jump to."""

    name: str
    lines: Sequence[str]
    hook: str | None = None

    def text(self) -> str:
        """As nft reads it within its table."""
        lines = [f"type filter hook {self.hook}; policy accept;"] if self.hook else []
        return "\n".join([f"\tchain {self.name} {{", *(f"\t\t{line}" for line in [*lines, *self.lines]), "\t}"])


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule as chains of one table of one switch.

    Attributes:
        counter: the object that counts its frames.
    """

    family: str
    counter: str
    chains: Sequence[Chain]

    def install(self) -> str:
        """The text that adds it."""
        chains = "\n".join(chain.text() for chain in reversed(self.chains))
        return f"table {self.family} {TABLE} {{\n\tcounter {self.counter} {{\n\t}}\n{chains}\n}}\n"

    def remove(self) -> str:
        """The text that takes its chains away; the counter stays."""
        names = [f"{self.family} {TABLE} {chain.name}" for chain in self.chains]
        return "".join([f"flush chain {name}\n" for name in names] + [f"delete chain {name}\n" for name in names])


def clean_text(families: Sequence[str] = FAMILIES) -> str:
    """The text that removes our tables, there or not."""
    return "".join(f"add table {family} {TABLE}\ndelete table {family} {TABLE}\n" for family in families)


def is_at_egress(rule: Rule, kind: str) -> bool:
    """Whether a rule has to sit at the egress of a switch's ports."""
    return kind not in _FORWARD or isinstance(rule.action, Duplicate)


def compile_rule(
    rule: Rule,
    number: int,
    *,
    kind: str,
    ports: Sequence[Port],
    arriving: Sequence[Port],
    rates: Mapping[str, int],
    frame_bytes: int,
) -> CompiledRule:
    """A rule about frames for one switch.

    Args:
        rule: whose action is one about frames.
        number: of the rule in its profile: names its chains, and is its place among the rules.
        kind: of the switch: bridge, ovs or router.
        ports: where frames leave; all those of the switch where the rule names none.
        arriving: where they came in; empty for any.
        rates: device → bit/s that its frames may come to, where the rule says "above".
        frame_bytes: of the wire that a full frame takes.
    """
    name = f"rule_{number}"
    writer = _Writer(rule, name, rates, frame_bytes, lose="drop" if kind in _FORWARD else LOSE_UNNOTICED)
    if is_at_egress(rule, kind):
        lines = {port.device: writer.lines(f"{name}_{at}", "", port) for at, port in enumerate(ports)}
        bases = [
            Chain(f"{name}_{at}", lines[port.device], f'egress device "{port.device}" priority {number}')
            for at, port in enumerate(ports)
        ]
        return CompiledRule("netdev", name, [*bases, *writer.chains])
    came = f"iifname {_devices(arriving)} " if arriving else ""
    if isinstance(_above(rule), Above):
        # Every port has a rate of its own.
        body = [
            line
            for at, port in enumerate(ports)
            for line in writer.lines(f"{name}_{at}", f"{came}oifname {_devices([port])} ", port)
        ]
    else:
        body = writer.lines(name, came + (f"oifname {_devices(ports)} " if rule.ports else ""), None)
    return CompiledRule(_FORWARD[kind], name, [Chain(name, body, f"forward priority {number}"), *writer.chains])


class _Writer:
    """Writes the lines of one rule; chains that they jump to are gathered in `chains`."""

    def __init__(self, rule: Rule, name: str, rates: Mapping[str, int], frame_bytes: int, *, lose: str) -> None:
        self._rule, self._name, self._rates, self._frame_bytes, self._lose = rule, name, rates, frame_bytes, lose
        self.chains: list[Chain] = []

    def lines(self, prefix: str, where: str, port: Port | None) -> list[str]:
        """From matching frames to what is done to them."""
        matches = [where + one for one in _matches(self._rule.match)]
        verdicts = list(self._verdicts(port))
        if len(matches) == 1:
            return [f"{matches[0]}{verdict}" for verdict in verdicts]
        # One place where frames are picked: each of them counts once, whichever line it matched.
        self._chain(f"{prefix}_pick", verdicts)
        return [f"{match}jump {prefix}_pick" for match in matches]

    def _verdicts(self, port: Port | None) -> Iterator[str]:
        match self._rule.action:
            case Drop(selection):
                yield f"{_pick(selection)}{self._count}{self._lose}"
            case Police(above):
                yield f"{self._beyond(above, port)}{self._count}{self._lose}"
            case Duplicate(selection) if port is not None:
                # A copy leaves by the same hook: the mark keeps it from being copied and counted again.
                copy = f'meta mark set {COPY_MARK:#x} dup to "{port.device}"'
                yield f"meta mark != {COPY_MARK:#x} {_pick(selection)}{self._count}{copy}"
            case Mark(Above() as above):
                self._chain(f"{self._name}_mark", self._marks(""))
                yield f"{self._beyond(above, port)}jump {self._name}_mark"
            case Mark(Share() | Every() as selection):
                yield from self._marks(_pick(selection))

    def _marks(self, pick: str) -> list[str]:
        return [f"{ip} ecn {{ ect0, ect1 }} {pick}{self._count}{ip} ecn set ce" for ip in ("ip", "ip6")]

    @property
    def _count(self) -> str:
        return f"counter name {self._name} "

    def _beyond(self, above: Above, port: Port | None) -> str:
        bps = self._rates[port.device] if port is not None else 0
        per_minute = max(1, bps * _MINUTE_S // (BITS_PER_BYTE * self._frame_bytes))
        burst = max(1, above.burst_bytes // self._frame_bytes)
        half = (self._frame_bytes - ETHERNET_BYTES) // 2
        return f"meta length > {half} limit rate over {per_minute}/minute burst {burst} packets "

    def _chain(self, name: str, lines: Sequence[str]) -> None:
        if name not in [chain.name for chain in self.chains]:
            self.chains.append(Chain(name, lines))


def _above(rule: Rule) -> Above | Selection | None:
    return rule.action.above if isinstance(rule.action, Police) else getattr(rule.action, "selection", None)


def _devices(ports: Sequence[Port]) -> str:
    names = [f'"{port.device}"' for port in ports]
    return names[0] if len(names) == 1 else f"{{ {', '.join(names)} }}"


def _pick(selection: Selection) -> str:
    if isinstance(selection, Every):
        return f"numgen inc mod {selection.n} == 0 " if selection.n > 1 else ""
    chosen = round(selection.fraction * _PARTS)
    return f"numgen random mod {_PARTS} < {chosen} " if chosen < _PARTS else ""


def _matches(match: Match) -> Iterator[str]:
    """The alternatives of a match: a frame fulfils one of them at most."""
    addresses = _address("saddr", match.source) + _address("daddr", match.destination)
    if match.is_any_traffic:
        yield addresses
        return
    flow = f"{addresses}udp dport {UDP_PORT} "
    if match.source_port is not None:
        flow += f"udp sport {match.source_port} "
    if match.queue_pair is not None:
        flow += f"@th,104,24 {match.queue_pair:#x} "
    opcodes = list(_opcodes(match.opcodes))
    yield from (flow + one for one in opcodes) if opcodes else [flow]


def _address(field: str, prefix: str | None) -> str:
    if prefix is None:
        return ""
    return f"{'ip6' if ip_network(prefix).version == 6 else 'ip'} {field} {prefix} "


def _opcodes(classes: Sequence[OpcodeClass]) -> Iterator[str]:
    plain = sorted({opcode for one in classes if one.syndrome is None for opcode in one.opcodes})
    if plain:
        values = ", ".join(f"{opcode:#04x}" for opcode in plain)
        yield f"@th,64,8 {values if len(plain) == 1 else f'{{ {values} }}'} "
    for one in dict.fromkeys(one for one in classes if one.syndrome is not None):
        if not set(one.opcodes) <= set(plain):
            yield f"@th,64,8 {one.opcodes[0]:#04x} @th,160,3 {one.syndrome:#x} "
