"""Which nodes of different ranks are one operation: the k-th of a group on every member, the k-th send and receive."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from emulator.errors import format_ranks
from emulator.trace.meaning import warnings
from emulator.trace.meaning.groups import group_label
from emulator.trace.meaning.meaning import ROOTED, Meaning, TraceOptions
from emulator.trace.meaning.model import CommKind, Communication, Group, IntArray


@dataclass(slots=True)
class Pairing:
    """The result: communications by rank and position, and how many operations they make."""

    by_rank: list[dict[int, Communication]]
    instances: int = 0
    warnings: Counter[str] = field(default_factory=Counter)


def pair(
    meanings: Sequence[Sequence[Meaning]], *, groups: Sequence[Group], options: TraceOptions, is_alone: bool = False
) -> Pairing:
    """Match the communication nodes of all ranks; `meanings` is per rank, in canonical order.

    Args:
        is_alone: only one rank was recorded: each of its nodes is an operation of which it is all that is known.

    Raises:
        TraceError: members disagree or are missing, a send or receive has no partner, or sizes differ.
    """
    pairing = Pairing([{} for _ in meanings])
    for group, members in enumerate(_by_group(meanings, groups)):
        recorded = [nodes for nodes in members if nodes] if is_alone else members
        if recorded:
            _pair_group(pairing, groups[group], recorded, options)
    _pair_messages(pairing, meanings, options, is_alone=is_alone)
    # Positions were filled group by group; an agent wants them in the order of play.
    pairing.by_rank = [dict(sorted(found.items())) for found in pairing.by_rank]
    return pairing


def _by_group(meanings: Sequence[Sequence[Meaning]], groups: Sequence[Group]) -> list[list[list[Meaning]]]:
    """Collectives by group, then by member in group order, each in canonical order."""
    place = [{rank: index for index, rank in enumerate(group.ranks)} for group in groups]
    found: list[list[list[Meaning]]] = [[[] for _ in group.ranks] for group in groups]
    for nodes in meanings:
        for node in nodes:
            if node.kind.is_collective:
                found[node.group][place[node.group][node.rank]].append(node)
    return found


def _pair_group(pairing: Pairing, group: Group, members: Sequence[Sequence[Meaning]], options: TraceOptions) -> None:
    _check_counts(group, members)
    for index, nodes in enumerate(zip(*members, strict=True)):
        _check_agreement(group, nodes, index)
        root = _agreed_root(pairing, group, nodes)
        send, recv = _scaled_splits(nodes, options) if len(nodes) == len(group) else _own_splits(nodes[0], options)
        for member, node in enumerate(nodes):
            sent = send[member] if send else None
            pairing.by_rank[node.rank][node.position] = _communication(
                node,
                size_bytes=options.scaled(node.size_bytes) if sent is None else sum(sent),
                instance=pairing.instances,
                index=index,
                root=root,
                splits=(sent, recv[member] if recv else None),
            )
        pairing.instances += 1


def _check_counts(group: Group, members: Sequence[Sequence[Meaning]]) -> None:
    counts = [len(nodes) for nodes in members]
    fewest, most = min(counts), max(counts)
    if fewest < most:
        lacking, having = counts.index(fewest), counts.index(most)
        unmatched = members[having][fewest]
        raise unmatched.error(
            f"is collective number {fewest + 1} ({unmatched.kind.label}) of {group_label(group.name, group.ranks)}, "
            f"but rank {group.ranks[lacking]} has only {fewest} of that group (ranks {format_ranks(group.ranks)})"
        )


def _check_agreement(group: Group, nodes: Sequence[Meaning], index: int) -> None:
    first = nodes[0]
    may_differ = first.kind == CommKind.ALL_TO_ALL and any(node.send_splits or node.recv_splits for node in nodes)
    for node in nodes:
        if node.kind != first.kind or (node.size_bytes != first.size_bytes and not may_differ):
            raise node.error(
                f"disagrees with {first.label} ({first.path}) on collective number {index + 1} of "
                f"{group_label(group.name, group.ranks)}: {_what(node)} here, {_what(first)} there"
            )


def _what(node: Meaning) -> str:
    return f"{node.kind.label} of {node.size_bytes} bytes"


def _agreed_root(pairing: Pairing, group: Group, nodes: Sequence[Meaning]) -> int:
    if nodes[0].kind not in ROOTED:
        return -1
    named = [node for node in nodes if node.root is not None]
    for node in named:
        if node.root != named[0].root:
            raise node.error(f"names root {node.root}, but {named[0].label} ({named[0].path}) names {named[0].root}")
    pairing.warnings[warnings.ROOT_BY_SOME] += 0 < len(named) < len(nodes)
    root = named[0].root if named else None
    return group.ranks[0] if root is None else root


def _scaled_splits(
    nodes: Sequence[Meaning], options: TraceOptions
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Rows and columns of the matrix of an uneven all-to-all; empty lists for all else."""
    matrix = split_matrix(nodes) if nodes[0].kind == CommKind.ALL_TO_ALL else None
    if matrix is None:
        return [], []
    rows = [tuple(options.scaled(size) for size in row) for row in matrix.tolist()]
    return rows, list(zip(*rows, strict=True))


def _own_splits(node: Meaning, options: TraceOptions) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """What a rank alone says of its row and its column; empty lists for what it does not say."""
    send, recv = (
        [tuple(map(options.scaled, splits))] if splits else [] for splits in (node.send_splits, node.recv_splits)
    )
    return send, recv


def _pair_messages(
    pairing: Pairing, meanings: Sequence[Sequence[Meaning]], options: TraceOptions, *, is_alone: bool
) -> None:
    sends: dict[tuple[int, int, int], list[Meaning]] = defaultdict(list)
    recvs: dict[tuple[int, int, int], list[Meaning]] = defaultdict(list)
    for nodes in meanings:
        for node in nodes:
            if node.kind == CommKind.SEND:
                sends[node.rank, node.peer, node.tag].append(node)
            elif node.kind == CommKind.RECV:
                recvs[node.peer, node.rank, node.tag].append(node)
    for key in sorted({*sends, *recvs}):
        if is_alone:
            messages: Iterable[tuple[Meaning, ...]] = zip(sends[key] or recvs[key], strict=True)
        else:
            _check_messages(key, sends[key], recvs[key])
            messages = zip(sends[key], recvs[key], strict=True)
        for index, nodes_of_one in enumerate(messages):
            _store_message(pairing, nodes_of_one, index, options)


def _check_messages(key: tuple[int, int, int], sends: Sequence[Meaning], recvs: Sequence[Meaning]) -> None:
    source, destination, tag = key
    common = min(len(sends), len(recvs))
    for send, recv in zip(sends, recvs, strict=False):
        if send.size_bytes != recv.size_bytes:
            raise recv.error(
                f"receives {recv.size_bytes} bytes, but its partner, {send.label} ({send.path}), sends "
                f"{send.size_bytes} bytes (message {sends.index(send) + 1} from rank {source} with tag {tag})"
            )
    if len(sends) > common:
        raise sends[common].error(
            f"sends message {common + 1} with tag {tag} to rank {destination}, which has only {common} such receives"
        )
    if len(recvs) > common:
        raise recvs[common].error(
            f"receives message {common + 1} with tag {tag} from rank {source}, which has only {common} such sends"
        )


def _store_message(pairing: Pairing, nodes: Iterable[Meaning], index: int, options: TraceOptions) -> None:
    for node in nodes:
        pairing.by_rank[node.rank][node.position] = _communication(
            node, size_bytes=options.scaled(node.size_bytes), instance=pairing.instances, index=index
        )
    pairing.instances += 1


def _communication(
    node: Meaning,
    *,
    size_bytes: int,
    instance: int,
    index: int,
    root: int = -1,
    splits: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = (None, None),
) -> Communication:
    return Communication(
        node_id=node.raw.node_id,
        name=node.raw.name,
        row=node.raw.row,
        kind=node.kind,
        group=node.group,
        size_bytes=size_bytes,
        instance=instance,
        index_in_group=index,
        peer=node.peer,
        tag=node.tag,
        root=root,
        send_splits=splits[0],
        recv_splits=splits[1],
        traced_duration_micros=node.raw.duration_micros,
    )


UNKNOWN = -1


def split_matrix(members: Sequence[Meaning]) -> IntArray | None:
    """Bytes from each member (row) to each (column), or None if no member has splits: an even one.

    What a sender does not say is taken from the receivers; a member that says nothing sends near-equal blocks.

    Raises:
        TraceError: a sender and a receiver differ, or what a member sends is not its size.
    """
    if all(member.send_splits is None and member.recv_splits is None for member in members):
        return None
    sent, received = _as_matrices(members)
    differs = np.argwhere((sent >= 0) & (received >= 0) & (sent != received))
    if len(differs):
        i, j = (int(index) for index in differs[0])
        sender, receiver = members[i], members[j]
        raise sender.error(
            f"sends {int(sent[i, j])} bytes to rank {receiver.rank}, whose node {receiver.raw.node_id} "
            f"({receiver.path}) expects {int(received[i, j])} bytes from it"
        )
    matrix = np.where(sent >= 0, sent, received)
    for row, member in enumerate(members):
        _complete_row(matrix[row], member)
    return matrix


def _as_matrices(members: Sequence[Meaning]) -> tuple[IntArray, IntArray]:
    shape = (len(members), len(members))
    sent, received = np.full(shape, UNKNOWN, dtype=np.int64), np.full(shape, UNKNOWN, dtype=np.int64)
    for index, member in enumerate(members):
        if member.send_splits is not None:
            sent[index] = member.send_splits
        if member.recv_splits is not None:
            received[:, index] = member.recv_splits
    return sent, received


def _complete_row(row: IntArray, member: Meaning) -> None:
    base, longer = divmod(member.size_bytes, len(row))
    even = base + (np.arange(len(row)) < longer)
    row[row < 0] = even[row < 0]
    total = int(row.sum())
    if total != member.size_bytes:
        raise member.error(
            f"sends {total} bytes by the splits of its all_to_all, but its comm_size says {member.size_bytes} bytes"
        )
