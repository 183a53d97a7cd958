"""Writes rules about frames as nftables scripts, and reads their counters.

A bridge forwards in the forward hook of the bridge family, a router in that of inet. Frames of an Open vSwitch in
userspace pass neither. There, and for duplicates, rules use the egress hook of the ports, which does not know the
ingress port of a frame.

Every rule has its own base chain, so that it can be added and removed while others stay. Counters are objects of the
table and stay.

Rates are limits on full frames. nftables can limit bytes as well, but lets the bytes of a whole second pass as a burst.
Frames shorter than half a full frame are not counted, and pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network

from emulator.device.lab.model import BRIDGE, ROUTER, LabPort
from emulator.device.profile.profile import (
    Above,
    Drop,
    Duplicate,
    Every,
    FrameShare,
    Mark,
    Match,
    Once,
    OpcodeClass,
    Police,
    ProfileRule,
    Selection,
)
from emulator.planner.network.header_overhead import ETHERNET_BYTES
from emulator.roce.constants import UDP_PORT
from emulator.units import BITS_PER_BYTE

TABLE = "charkha"
COPY_MARK = 0xC4A2
"""Kernel mark of frames that were copied; it does not leave the switch."""
DROP_SILENTLY = 'fwd to "lo"'
"""Drops a frame without an error for the sender: if a send fails, Open vSwitch drops the rest of its batch. On the
loopback of the switch's namespace, the frame is for another host and is discarded.
"""
_MINUTE_S = 60
_PARTS = 1_000_000
_NEVER_AGAIN = (1 << 32) - 1  # frames until a counter of nftables begins again
_FORWARD = {BRIDGE: "bridge", ROUTER: "inet"}
FAMILIES = ("bridge", "inet", "netdev")


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain; `hook` is None for a chain that others jump to."""

    name: str
    lines: Sequence[str]
    hook: str | None = None

    def text(self) -> str:
        """The chain in nftables syntax, within its table."""
        lines = [f"type filter hook {self.hook}; policy accept;"] if self.hook else []
        return "\n".join([f"\tchain {self.name} {{", *(f"\t\t{line}" for line in [*lines, *self.lines]), "\t}"])


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule as chains in a table of one switch.

    Attributes:
        family: of the table.
        counter: name of the object that counts its frames.
    """

    family: str
    counter: str
    chains: Sequence[Chain]

    def install(self) -> str:
        """The script that adds the rule."""
        chains = "\n".join(chain.text() for chain in reversed(self.chains))
        return f"table {self.family} {TABLE} {{\n\tcounter {self.counter} {{\n\t}}\n{chains}\n}}\n"

    def remove(self) -> str:
        """The script that removes its chains; the counter stays."""
        names = [f"{self.family} {TABLE} {chain.name}" for chain in self.chains]
        return "".join([f"flush chain {name}\n" for name in names] + [f"delete chain {name}\n" for name in names])


def clean_text(families: Sequence[str] = FAMILIES) -> str:
    """The script that removes Charkha's tables, whether they exist or not."""
    return "".join(f"add table {family} {TABLE}\ndelete table {family} {TABLE}\n" for family in families)


def parse_counters(printed: str | bytes) -> Mapping[tuple[str, str], int]:
    """(family, name) → packets, from the output of `nft -j list counters`."""
    found = (entry["counter"] for entry in json.loads(printed)["nftables"] if "counter" in entry)
    return {(one["family"], one["name"]): one["packets"] for one in found}


def is_at_egress(rule: ProfileRule, kind: str) -> bool:
    """Whether a rule uses the egress hook of the ports, on this kind of switch."""
    return kind not in _FORWARD or isinstance(rule.action, Duplicate)


def compile_rule(
    rule: ProfileRule,
    number: int,
    *,
    kind: str,
    ports: Sequence[LabPort],
    arriving: Sequence[LabPort],
    rates: Mapping[str, int],
    frame_bytes: int,
) -> CompiledRule:
    """Compile a rule about frames for one switch.

    Args:
        rule: a rule that drops, duplicates, marks or polices.
        number: index of the rule in its profile; names its chains and sets their priority.
        kind: of the switch: bridge, ovs or router.
        ports: egress ports; all ports of the switch if the rule names none.
        arriving: ingress ports; empty for any.
        rates: device → rate in bit/s, for a rule about frames above a rate.
        frame_bytes: length of a full frame on the wire.
    """
    name = f"rule_{number}"
    writer = _Writer(rule, name, rates, frame_bytes, drop="drop" if kind in _FORWARD else DROP_SILENTLY)
    if is_at_egress(rule, kind):
        lines = {port.device: writer.lines(f"{name}_{at}", "", port) for at, port in enumerate(ports)}
        bases = [
            Chain(f"{name}_{at}", lines[port.device], f'egress device "{port.device}" priority {number}')
            for at, port in enumerate(ports)
        ]
        return CompiledRule("netdev", name, [*bases, *writer.chains])
    ingress = f"iifname {_devices(arriving)} " if arriving else ""
    if isinstance(_above(rule), Above):
        # Every port has its own rate.
        body = [
            line
            for at, port in enumerate(ports)
            for line in writer.lines(f"{name}_{at}", f"{ingress}oifname {_devices([port])} ", port)
        ]
    else:
        body = writer.lines(name, ingress + (f"oifname {_devices(ports)} " if rule.ports else ""), None)
    return CompiledRule(_FORWARD[kind], name, [Chain(name, body, f"forward priority {number}"), *writer.chains])


class _Writer:
    """Writes the lines of one rule; chains that they jump to are in `chains`."""

    def __init__(self, rule: ProfileRule, name: str, rates: Mapping[str, int], frame_bytes: int, *, drop: str) -> None:
        self._rule, self._name, self._rates, self._frame_bytes, self._drop = rule, name, rates, frame_bytes, drop
        self.chains: list[Chain] = []

    def lines(self, prefix: str, where: str, port: LabPort | None) -> list[str]:
        """Lines that match frames and apply the action to them."""
        matches = [where + one for one in _matches(self._rule.match)]
        verdicts = list(self._verdicts(port))
        if len(matches) == 1:
            return [f"{matches[0]}{verdict}" for verdict in verdicts]
        # All lines jump to one chain that selects frames, so that shares and counts include every line.
        self._chain(f"{prefix}_select", verdicts)
        return [f"{match}jump {prefix}_select" for match in matches]

    def _verdicts(self, port: LabPort | None) -> Iterator[str]:
        match self._rule.action:
            case Drop(selection):
                yield f"{_select(selection)}{self._count}{self._drop}"
            case Police(above):
                yield f"{self._exceeding(above, port)}{self._count}{self._drop}"
            case Duplicate(selection) if port is not None:
                # The copy passes the same hook: its mark prevents that it is copied and counted again.
                copy = f'meta mark set {COPY_MARK:#x} dup to "{port.device}"'
                yield f"meta mark != {COPY_MARK:#x} {_select(selection)}{self._count}{copy}"
            case Mark(Above() as above):
                self._chain(f"{self._name}_mark", self._marks(""))
                yield f"{self._exceeding(above, port)}jump {self._name}_mark"
            case Mark(FrameShare() | Every() | Once() as selection):
                yield from self._marks(_select(selection))

    def _marks(self, selected: str) -> list[str]:
        return [f"{ip} ecn {{ ect0, ect1 }} {selected}{self._count}{ip} ecn set ce" for ip in ("ip", "ip6")]

    @property
    def _count(self) -> str:
        return f"counter name {self._name} "

    def _exceeding(self, above: Above, port: LabPort | None) -> str:
        bps = self._rates[port.device] if port is not None else 0
        per_minute = max(1, bps * _MINUTE_S // (BITS_PER_BYTE * self._frame_bytes))
        burst = max(1, above.burst_bytes // self._frame_bytes)
        half = (self._frame_bytes - ETHERNET_BYTES) // 2
        return f"meta length > {half} limit rate over {per_minute}/minute burst {burst} packets "

    def _chain(self, name: str, lines: Sequence[str]) -> None:
        if name not in [chain.name for chain in self.chains]:
            self.chains.append(Chain(name, lines))


def _above(rule: ProfileRule) -> Above | Selection | None:
    return rule.action.above if isinstance(rule.action, Police) else getattr(rule.action, "selection", None)


def _devices(ports: Sequence[LabPort]) -> str:
    names = [f'"{port.device}"' for port in ports]
    return names[0] if len(names) == 1 else f"{{ {', '.join(names)} }}"


def _select(selection: Selection) -> str:
    if isinstance(selection, Once):
        return f"numgen inc mod {_NEVER_AGAIN} == 0 "
    if isinstance(selection, Every):
        return f"numgen inc mod {selection.n} == 0 " if selection.n > 1 else ""
    chosen = round(selection.fraction * _PARTS)
    return f"numgen random mod {_PARTS} < {chosen} " if chosen < _PARTS else ""


def _matches(match: Match) -> Iterator[str]:
    """Alternative expressions of a match; a frame satisfies at most one."""
    addresses = _address("saddr", match.source) + _address("daddr", match.destination)
    if match.is_any_traffic:
        yield addresses
        return
    flow = f"{addresses}udp dport {UDP_PORT} "
    if match.source_port is not None:
        flow += f"udp sport {match.source_port} "
    if match.queue_pair is not None:
        flow += f"@th,104,24 {match.queue_pair:#x} "
    if match.psns is not None:
        low, high = match.psns
        flow += f"@th,136,24 {low:#x} " if low == high else f"@th,136,24 {low:#x}-{high:#x} "
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
