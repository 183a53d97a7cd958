"""Any checkpointing job: its bytes are the closed form, at every storage host, and it can be played to the end."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.annexes.workloads.checkpoint import Checkpointing, checkpoint_workload
from emulator.trace.meaning.model import CommKind, NodeType
from emulator.trace.meaning.storage import play_on_storage_hosts
from emulator.trace.meaning.workload import build_workload
from emulator.trace.synthetic.synthetic import FileCall
from tests.support.full import examples
from tests.support.playing import check_bytes, check_order, play, traces_of

SMALL = st.integers(1, 3)
JOBS = st.builds(
    Checkpointing,
    parameters=st.integers(1, 500),
    weight_bytes=st.integers(1, 4),
    optimizer_bytes=st.integers(0, 12),
    tensor=SMALL,
    pipeline=SMALL,
    data=SMALL,
    zero_stage=st.integers(0, 3),
    steps=st.integers(1, 4),
    every=st.integers(1, 5),
    step_micros=st.integers(0, 5),
    restart=st.booleans(),
    asynchronous=st.booleans(),
    call_bytes=st.integers(50, 3000),
)


@given(job=JOBS)
@settings(max_examples=examples(60))
def test_bytes_are_the_closed_form(job: Checkpointing) -> None:
    made = checkpoint_workload(job)
    nodes = [node for rank in range(made.ranks) for node in made.nodes(rank)]
    moved: Counter[FileCall] = Counter()
    for node in nodes:
        if node.file is not None:
            assert node.node_type is NodeType.STORAGE
            assert node.file.size_bytes <= job.call_bytes
            moved[node.file.call] += node.file.size_bytes
    assert moved[FileCall.PWRITE] == job.written_bytes * job.checkpoints
    assert moved[FileCall.PREAD] == job.read_bytes * job.restart
    totals: Counter[CommKind] = Counter()
    for entry in made.totals.traffic:
        totals[entry.kind] += entry.total_bytes
    assert totals[CommKind.STORAGE_WRITE] == moved[FileCall.PWRITE]
    assert totals[CommKind.STORAGE_READ] == moved[FileCall.PREAD]


@given(job=JOBS, endpoints=st.integers(1, 4))
@settings(max_examples=examples(25), deadline=None)
def test_a_storage_host_gets_what_its_ranks_write(job: Checkpointing, endpoints: int) -> None:
    made = checkpoint_workload(job)
    traces, groups = traces_of(made)
    workload = play_on_storage_hosts(build_workload(traces, groups=groups), traces, endpoints=endpoints)
    played = play(traces, workload=workload)
    check_order(played)
    check_bytes(played)
    expected: Counter[int] = Counter()
    for rank in range(made.ranks):
        for node in made.nodes(rank):
            if node.file is not None and node.file.call is FileCall.PWRITE:
                expected[made.ranks + rank % endpoints] += node.file.size_bytes
    received: Counter[int] = Counter()
    for one in played.arrivals:
        if one.rank >= made.ranks:
            received[one.rank] += one.size
    assert received == expected
    assert received.total() == job.written_bytes * job.checkpoints
    read = sum(one.size for one in played.arrivals if one.peer >= made.ranks)
    assert read == job.read_bytes * job.restart
