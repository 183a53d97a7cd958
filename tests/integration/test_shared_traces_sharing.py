"""Every playable published set, and the example that comes with Charkha, survives what is made of it to share it."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.annexes.trace_kit.anonymous import Jitter, anonymize
from emulator.annexes.trace_kit.synth import synthesise
from emulator.experiment.settle.workload import LoadedJob, load_from_files
from emulator.experiment.spec.spec import Trace
from emulator.trace.files.master import write_master
from emulator.trace.meaning.order import communication_dependencies
from tests.integration.test_shared_traces_check import SETS
from tests.support.command import EXAMPLE
from tests.support.shared_traces import trace_path

NAMES = [*(published.path for published in SETS), "transformer-8r"]


def path_of(name: str) -> str:
    return str(EXAMPLE if name == "transformer-8r" else trace_path(name))


def communications(job: LoadedJob) -> list[list[object]]:
    """Of each rank in canonical order: all fields but ids and rows, ranks of the group, start, what is waited for."""
    starts = {trace.rank: trace.start_micros for trace in job.loaded.traces}
    return [
        [
            (
                replace(item, node_id=0, row=0, group=0),
                job.workload.groups[item.group].ranks,
                int(starts[rank][item.row]),
                waits,
            )
            for item, waits in zip(program.communications.values(), communication_dependencies(program), strict=True)
        ]
        for rank, program in enumerate(job.workload.programs)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_master_file_gives_back_every_communication(name: str, tmp_path: Path) -> None:
    source = load_from_files(Trace(path=path_of(name)))
    write_master(tmp_path / "x.parquet", source.workload, source.loaded.traces, name="x")
    back = load_from_files(Trace(path=str(tmp_path / "x.parquet")))
    assert communications(back) == communications(source)


@pytest.mark.parametrize("name", NAMES)
def test_an_anonymous_copy_plays_alike(name: str, tmp_path: Path) -> None:
    """`anonymize` itself proves that; it would raise."""
    made = anonymize(Trace(path=path_of(name)), tmp_path / "copy", jitter=Jitter(0.05, seed=1))
    assert made.nodes == load_from_files(Trace(path=str(tmp_path / "copy"))).loaded.nodes


@pytest.mark.parametrize("name", NAMES)
def test_a_drawn_set_is_accepted_and_has_the_same_operations(name: str, tmp_path: Path) -> None:
    made = synthesise(Trace(path=path_of(name)), tmp_path / "made", seed=5)
    counts = Counter({one.name: one.source_count - one.sample_count for one in made.distances if one.what == "size"})
    assert not any(counts.values())
