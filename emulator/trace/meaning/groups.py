"""Process groups in all the ways traces give them, settled to one list of distinct groups.

In order of precedence a name is looked up in the group file, on the node itself, and among the groups that the rank's
metadata nodes define; no name, "" and "0" mean the world where none of these says otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from emulator.errors import TraceError, format_ranks
from emulator.schema import SchemaProblem, parse_json
from emulator.trace.meaning import warnings
from emulator.trace.meaning.model import Group, RankTrace, RawCommunication

WORLD_NAMES = ("", "0")
WORLD = 0
"""Index of the world in Workload.groups."""


def parse_group_file(data: bytes, path: object) -> dict[str, tuple[int, ...]]:
    """Groups of a file as ASTRA-sim reads them: a JSON object of name → list of world ranks.

    Raises:
        TraceError: not such a file; names the file and the key.
    """
    try:
        content = parse_json(data)
    except SchemaProblem as problem:
        raise TraceError(f'{problem}; a group file looks like {{"1": [0, 1]}}', path=path) from problem
    if not isinstance(content, dict):
        raise TraceError('a group file is one JSON object, {"name": [ranks]}', path=path)
    return {name: _parse_ranks(name, ranks, path) for name, ranks in content.items()}


def _parse_ranks(name: str, ranks: object, path: object) -> tuple[int, ...]:
    if not isinstance(ranks, list) or not ranks:
        raise TraceError(f"group {name!r} must be a list of at least one rank, not {_shown(ranks)}", path=path)
    for rank in ranks:
        if type(rank) is not int or rank < 0:
            raise TraceError(f"group {name!r} contains {_shown(rank)}, which is not a rank", path=path)
    if len(set(ranks)) < len(ranks):
        raise TraceError(f"group {name!r} lists a rank twice", path=path)
    return tuple(ranks)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


class GroupTable:
    """Settles the group of each collective and numbers the distinct ones; number 0 is the world.

    A group is identified by its name and its ranks: PyTorch gives different groups on different ranks one name.

    Args:
        world_size: ranks in the trace set.
        named: the group file's content, or None.
    """

    def __init__(self, *, world_size: int, named: Mapping[str, Sequence[int]] | None) -> None:
        self._world = tuple(range(world_size))
        self._named = {name: tuple(ranks) for name, ranks in (named or {}).items()}
        self._used: set[str] = set()
        self.groups: list[Group] = [Group("", self._world)]
        self.warnings: Counter[str] = Counter()
        self._number: dict[Group, int] = {self.groups[0]: WORLD}
        self._settled: dict[tuple[int, str | None, tuple[int, ...] | None], int] = {}

    def number(self, trace: RankTrace, raw: RawCommunication) -> int:
        """Index in `groups` of the group a collective belongs to.

        Raises:
            TraceError: the group is unknown, impossible in this world, or does not contain the node's own rank.
        """
        key = (trace.rank, raw.pg_name, raw.group_ranks)
        if key not in self._settled:
            self._settled[key] = self._settle(trace, raw)
        return self._settled[key]

    def check_unused(self) -> None:
        """Count groups of the file that nobody uses and that name ranks outside the world."""
        for name, ranks in self._named.items():
            if name not in self._used and any(rank >= len(self._world) for rank in ranks):
                self.warnings[warnings.GROUP_UNUSED_ABSENT] += 1

    def _settle(self, trace: RankTrace, raw: RawCommunication) -> int:
        name = raw.pg_name or ""
        ranks = self._ranks(trace, raw, name)
        if ranks is self._world and not name:  # known to be right, and long: every rank has it
            return WORLD
        self._check(trace, raw, ranks)
        if list(ranks) != sorted(ranks):
            self.warnings[warnings.GROUP_UNSORTED] += 1
            ranks = tuple(sorted(ranks))
        return self._numbered(name, ranks)

    def _ranks(self, trace: RankTrace, raw: RawCommunication, name: str) -> tuple[int, ...]:
        own = trace.groups.get(name)
        defined = [self._named.get(name), raw.group_ranks, None if own is None else (own or self._world)]
        known = [ranks for ranks in defined if ranks]
        if len({tuple(sorted(ranks)) for ranks in known}) > 1:
            self.warnings[warnings.GROUP_TWICE] += 1
        if name in self._named:
            self._used.add(name)
        if known:
            return known[0]
        if name in WORLD_NAMES or len(self._world) == 1:
            return self._world
        raise TraceError(
            f"belongs to process group {name!r}, which is not defined: "
            'give a group file with --groups, {"' + name + '": [ranks]}',
            path=trace.path,
            node=raw.node_id,
        )

    def _numbered(self, name: str, ranks: tuple[int, ...]) -> int:
        if name in WORLD_NAMES:
            if ranks == self._world:
                return WORLD
            if name == "0":
                self.warnings[warnings.GROUP_ZERO] += 1
        group = Group(name, ranks)
        if group not in self._number:
            self._number[group] = len(self.groups)
            self.groups.append(group)
        return self._number[group]

    def _check(self, trace: RankTrace, raw: RawCommunication, ranks: Sequence[int]) -> None:
        problem = _group_problem(trace, ranks, len(self._world))
        if problem:
            raise TraceError(f"{group_label(raw.pg_name or '', ranks)} {problem}", path=trace.path, node=raw.node_id)


def _group_problem(trace: RankTrace, ranks: Sequence[int], world_size: int) -> str | None:
    if len(set(ranks)) < len(ranks):
        return "lists a rank twice"
    absent = [rank for rank in ranks if not 0 <= rank < world_size]
    if absent:
        have = format_ranks(range(world_size))
        problem = f"lists rank {absent[0]}, which is absent: the trace has ranks {have}"
        alone = "; record all ranks: `check` and `view` show one alone, with --ranks N for a job of N ranks"
        return problem + (alone if world_size == 1 else "")
    if trace.rank not in ranks:
        return f"has ranks {format_ranks(ranks)}, but not the node's own rank {trace.rank}"
    return None


def group_label(name: str, ranks: Sequence[int]) -> str:
    """A group for people: `group 1`, or its ranks where it has no name."""
    return f"group {name}" if name else f"group of ranks {format_ranks(ranks)}"
