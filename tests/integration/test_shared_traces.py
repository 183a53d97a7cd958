"""Traces that others made are played to their end, or refused with what is wrong with them."""

import re
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from emulator.cli.main import main
from emulator.results.run_folder.reader import read_run
from tests.support.command import succeed
from tests.support.full import IS_FULL
from tests.support.shared_traces import require_shared

ITERATIONS = 3
UNSCALED_ITERATIONS = 3 if IS_FULL else 1
PLAY = ("--compute", "skip", "--warmup", 0, "--out", "run")
GIB = 1 << 30


@dataclass(frozen=True)
class Playable:
    """A trace set, how many communication nodes it has over all ranks, and whether it moves tens of gigabytes."""

    path: str
    communications: int
    is_large: bool = False


PLAYABLE = [
    Playable("real-dlrm-8r", 64),
    Playable("real-allreduce-2r-pg", 4, is_large=True),
    Playable("self-pytorch-3d-8r", 136 + 32 + 8 + 8 + 8 + 16 + 16),
    Playable("stage-llama-8r-dp2tp2pp2", 384 + 256 + 80 + 32 + 32),
    Playable("stage-llama-64r-dp4tp4pp4", 1536 + 1024 + 320 + 384 + 384, is_large=True),
    Playable("stage-moe-16r-dp2tp2ep4", 384 + 192 + 128 + 96),
    Playable("text-converted-8r/DLRM_HybridParallel", 16 + 56),
    Playable("text-converted-8r/MLP_HybridParallel_Data_Model", 48 + 88),
    Playable("text-converted-8r/Resnet50_DataParallel", 432),
]


def _play(trace: Path, folder: Path, *options: object, timeout_s: float = 100, iterations: int = ITERATIONS) -> None:
    began = time.monotonic()
    succeed("run", trace, *PLAY, "--iterations", iterations, *options, cwd=folder, timeout_s=timeout_s, quiet=True)
    memory = [host.peak_rss_bytes or 0 for host in read_run(folder / "run").manifest.hosts]
    print(f"{trace.name}: {time.monotonic() - began:.1f} s, {max(memory) >> 20} MiB an agent")
    assert max(memory) < GIB


def _rows(folder: Path) -> int:
    return pq.read_metadata(folder / "run" / "samples.parquet").num_rows


@pytest.mark.parametrize("name", ["real-dlrm-8r", "stage-llama-8r-dp2tp2pp2"])
def test_a_published_trace_is_played_scaled(name: str, tmp_path: Path) -> None:
    trace = next(one for one in PLAYABLE if one.path == name)
    _play(require_shared("traces", name), tmp_path, "--scale-bytes", "1/1024")
    assert _rows(tmp_path) == ITERATIONS * trace.communications


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("trace", PLAYABLE, ids=lambda trace: Path(trace.path).name)
def test_a_published_trace_is_played_unscaled(trace: Playable, tmp_path: Path) -> None:
    """Sizes as recorded, in messages of 1 MiB; the two that move tens of gigabytes an iteration only on demand."""
    folder, _, prefix = trace.path.partition("/")
    scale = ("--scale-bytes", "1/64") if trace.is_large and not IS_FULL else ()
    path = require_shared("traces", folder)
    options = (*scale, "--timeout", 300)
    _play(path / prefix if prefix else path, tmp_path, *options, timeout_s=1700, iterations=UNSCALED_ITERATIONS)
    assert _rows(tmp_path) == UNSCALED_ITERATIONS * trace.communications


EXAMPLES = [
    *(
        (f"workload/microbenchmarks/{kind}/{count}npus_1MB", count)
        for kind in ("all_gather", "all_reduce", "all_to_all", "reduce_scatter")
        for count in ((4, 8, 16) if IS_FULL else (8,))
    ),
    ("system/custom_collectives/custom_ring_allreduce_8npus_1MB", 8 * 28),
]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "communications"), EXAMPLES, ids=[path.rpartition("/")[2] for path, _ in EXAMPLES])
def test_a_simulators_example_is_played(path: str, communications: int, tmp_path: Path) -> None:
    _play(require_shared("traces", "astra-sim-examples", path), tmp_path)
    assert _rows(tmp_path) == ITERATIONS * communications


@pytest.mark.slow
def test_one_rank_of_many_is_played_leniently(tmp_path: Path) -> None:
    """Its seven collectives on the network; the fourteen on the CPU are recorded time."""
    trace = require_shared("traces", "mlcommons-chakra-tests", "chakra.0.et")
    _play(trace, tmp_path, "--lenient", "--ranks", 1)
    assert _rows(tmp_path) == ITERATIONS * 7


REFUSED = {"legacy-chakra-old": "wire format from before October 2023"}


@pytest.mark.parametrize("folder", REFUSED)
def test_other_formats_are_refused_by_name(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(require_shared("traces", folder).iterdir())
    assert files
    for path in files:
        assert main(["run", str(path), "--ranks", "1", "--out", "/nowhere"]) == 2
        said = capsys.readouterr().err
        assert re.search(REFUSED[folder], said), said
        assert said.count("\n") == 1
