"""Random trace sets that can be played: all ranks issue their operations in one common order."""

import random
from collections.abc import Sequence

from emulator.trace.meaning.model import RankTrace
from tests.support.traces import Node, coll, node, rank_trace, recv, send

_KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "barrier")


def random_traces(seed: int, *, operations: int = 8) -> list[RankTrace]:
    """Traces of two to four ranks with ids that differ between ranks, compute in between, and uneven all-to-all."""
    rng = random.Random(seed)
    world = rng.randint(2, 4)
    ranks: list[list[Node]] = [[] for _ in range(world)]
    last_id = [rng.randint(1, 50) for _ in ranks]

    def fields(rank: int) -> dict[str, object]:
        known = [one.id for one in ranks[rank]]
        last_id[rank] += rng.randint(1, 4)
        deps = sorted(rng.sample(known, rng.randint(0, min(2, len(known)))))
        return {"id": last_id[rank], "deps": deps, "duration": rng.randint(0, 900), "start": last_id[rank] * 10}

    for number in range(operations):
        for rank in range(world):
            if rng.random() < 0.6:
                ranks[rank].append(node(**fields(rank), cpu=rng.random() < 0.3, name=f"secret {number}"))
        if rng.random() < 0.3:
            sender, receiver = rng.sample(range(world), 2)
            size, tag = rng.randint(1, 99), rng.choice((None, 3))
            ranks[sender].append(send(dst=receiver, size=size, tag=tag, name="secret send", **fields(sender)))
            ranks[receiver].append(recv(src=sender, size=size, tag=tag, name="secret recv", **fields(receiver)))
            continue
        members = sorted(rng.sample(range(world), rng.randint(1, world)))
        _add_collective(rng, ranks, members, fields)
    return [rank_trace(rank, rng.sample(nodes, len(nodes))) for rank, nodes in enumerate(ranks)]


def _add_collective(rng: random.Random, ranks: list[list[Node]], members: Sequence[int], fields: object) -> None:
    kind = rng.choice(_KINDS)
    size = 0 if kind == "barrier" else rng.randint(1, 5) << rng.randint(0, 12)
    group = {"pg": f"secret {members}", "group_ranks": tuple(members)}
    matrix = [[rng.randint(0, 9) for _ in members] for _ in members]
    root = rng.choice(members)
    for at, rank in enumerate(members):
        more: dict[str, object] = {"root": root} if kind == "broadcast" else {}
        own = size
        if kind == "all_to_all" and sum(map(sum, matrix)) and all(map(sum, matrix)):
            own = sum(matrix[at])
            more = {"in_splits": tuple(matrix[at]), "out_splits": tuple(row[at] for row in matrix)}
        ranks[rank].append(coll(kind=kind, size=own, name=f"secret {kind}", **group, **more, **fields(rank)))
