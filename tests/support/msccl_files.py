"""Algorithms in MSCCL's XML, written by hand: the smallest ones of each collective, and with what makes them hard."""

from collections.abc import Sequence

Step = tuple[str, str, str, int, tuple[int, int] | None, bool]
"""type, source (`i3`), target, chunks, (thread block, step) before it, others wait for it."""
Block = tuple[int, int, int, Sequence[Step]]
"""Send peer, receive peer, channel, steps."""


def step(kind: str, source: str, target: str = "", *, chunks: int = 1, after: tuple[int, int] | None = None) -> Step:
    """A step; the target is the source unless it is given."""
    return kind, source, target or source, chunks, after, True


def to_xml(
    collective: str,
    gpus: Sequence[Sequence[Block]],
    *,
    chunks: int,
    scratch: int = 0,
    in_place: bool = False,
    sizes: tuple[int, int] = (0, 0),
) -> str:
    """The XML of an algorithm."""
    head = (
        f'<algo name="{collective} by hand" proto="Simple" nchannels="2" nchunksperloop="{chunks}" ngpus="{len(gpus)}" '
        f'coll="{collective}" inplace="{int(in_place)}" minBytes="{sizes[0]}" maxBytes="{sizes[1]}">'
    )
    lines = [head]
    for gpu, blocks in enumerate(gpus):
        lines.append(f'  <gpu id="{gpu}" i_chunks="{chunks}" o_chunks="{chunks}" s_chunks="{scratch}">')
        for number, (send, recv, channel, steps) in enumerate(blocks):
            lines.append(f'    <tb id="{number}" send="{send}" recv="{recv}" chan="{channel}">')
            lines += [f"      {_step(at, one)}" for at, one in enumerate(steps)]
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>", ""])


def _step(at: int, one: Step) -> str:
    kind, source, target, chunks, after, signals = one
    block, number = after or (-1, -1)
    return (
        f'<step s="{at}" type="{kind}" srcbuf="{source[0]}" srcoff="{source[1:]}" dstbuf="{target[0]}" '
        f'dstoff="{target[1:]}" cnt="{chunks}" depid="{block}" deps="{number}" hasdep="{int(signals)}"/>'
    )


def ring_all_reduce(ranks: int, *, channels: int = 1) -> str:
    """In place; with several channels, each has a part of the array and a thread block of its own."""
    gpus = []
    for rank in range(ranks):
        blocks: list[Block] = []
        for channel in range(channels):

            def chunk(back: int, *, base: int = channel * ranks, own: int = rank) -> str:
                return f"i{base + (own - back) % ranks}"

            steps = []
            for at in range(ranks - 1):
                steps += [step("s", chunk(at)), step("rrc", chunk(at + 1))]
            for at in range(ranks - 1):
                steps += [step("s", chunk(at + ranks - 1)), step("r", chunk(at + ranks))]
            blocks.append(((rank + 1) % ranks, (rank - 1) % ranks, channel, steps))
        gpus.append(blocks)
    return to_xml("allreduce", gpus, chunks=ranks * channels, in_place=True)


def passing_ring_all_reduce(ranks: int) -> str:
    """The same ring with instructions that receive and pass on: rrs, rrcs, rcs."""
    gpus = []
    for rank in range(ranks):
        steps = [step("s", f"i{rank}")]
        steps += [step("rrs", f"i{(rank - at) % ranks}") for at in range(1, ranks - 1)]
        steps += [step("rrcs", f"i{(rank + 1) % ranks}")]
        steps += [step("rcs", f"i{(rank - at) % ranks}") for at in range(ranks - 2)]
        steps += [step("r", f"i{(rank + 2) % ranks}")]
        gpus.append([((rank + 1) % ranks, (rank - 1) % ranks, 0, steps)])
    return to_xml("allreduce", gpus, chunks=ranks, in_place=True)


def ring_all_gather(ranks: int, *, in_place: bool, parts: int = 1) -> str:
    """Every shard in `parts` chunks, which travel together."""
    gpus = []
    for rank in range(ranks):
        steps = [] if in_place else [step("cpy", "i0", f"o{rank * parts}", chunks=parts)]
        for at in range(ranks - 1):
            steps += [
                step("s", f"o{(rank - at) % ranks * parts}", chunks=parts),
                step("r", f"o{(rank - at - 1) % ranks * parts}", chunks=parts),
            ]
        gpus.append([((rank + 1) % ranks, (rank - 1) % ranks, 0, steps)])
    return to_xml("allgather", gpus, chunks=ranks * parts, in_place=in_place)


def ring_reduce_scatter(ranks: int) -> str:
    """In place: rank r ends with block r."""
    gpus = []
    for rank in range(ranks):
        steps = []
        for at in range(ranks - 1):
            steps += [step("s", f"i{(rank - at - 1) % ranks}"), step("rrc", f"i{(rank - at - 2) % ranks}")]
        gpus.append([((rank + 1) % ranks, (rank - 1) % ranks, 0, steps)])
    return to_xml("reducescatter", gpus, chunks=ranks, in_place=True)


def all_pairs_all_to_all(ranks: int) -> str:
    """A thread block for each peer, and one that copies."""
    gpus = []
    for rank in range(ranks):
        blocks: list[Block] = [(-1, -1, 0, [step("cpy", f"i{rank}", f"o{rank}")])]
        blocks += [
            (peer, peer, 0, [step("s", f"i{peer}"), step("r", f"o{peer}")]) for peer in range(ranks) if peer != rank
        ]
        gpus.append(blocks)
    return to_xml("alltoall", gpus, chunks=ranks)


def all_pairs_all_reduce(ranks: int, *, waits: bool = True) -> str:
    """Every rank sums one chunk in scratch, in a thread block that waits for the others, and sends it to all.

    Without `waits`, nothing orders the thread blocks.
    """
    gpus = []
    for rank in range(ranks):
        peers = [peer for peer in range(ranks) if peer != rank]
        last = len(peers)
        blocks: list[Block] = []
        for at, peer in enumerate(peers):
            done = (last, 2 * len(peers) - 1) if waits else None
            blocks.append(
                (
                    peer,
                    peer,
                    0,
                    [
                        step("s", f"i{peer}"),
                        step("r", f"s{at}"),
                        step("nop", "i0", after=done),
                        step("s", f"i{rank}"),
                        step("r", f"i{peer}"),
                    ],
                )
            )
        sums = []
        for at in range(len(peers)):
            sums += [step("nop", "i0", after=(at, 1) if waits else None), step("re", f"s{at}", f"i{rank}")]
        blocks.append((-1, -1, 0, sums))
        gpus.append(blocks)
    return to_xml("allreduce", gpus, chunks=ranks, scratch=ranks - 1, in_place=True)
