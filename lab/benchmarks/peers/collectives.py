"""All-reduce between processes of this host: ours, Gloo's and Open MPI's, timed by one definition.

Every system gives, per rank and iteration, when the call was made and when it was done, on the monotonic clock that all
processes share; `summarise` makes of them what is compared. A barrier precedes every iteration, everywhere.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from emulator.trace.meaning.model import IntArray
from emulator.transports.registry import TRANSPORTS
from lab.benchmarks.peers.children import MeasurementFailed, run, run_python
from lab.benchmarks.peers.quantities import Quantity
from lab.benchmarks.peers.subjects import INSTALL, PROGRAMS, Reading, lacking_command, last_json

SAMPLES = "samples.parquet"
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none")
MPI_OVER_TCP = {"pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": "lo", "oob_tcp_if_include": "lo"}


@dataclass(frozen=True, slots=True)
class Shape:
    """What is measured: an all-reduce of `size_bytes`, `iterations` times after `warmup` others."""

    ranks: int
    size_bytes: int
    iterations: int
    warmup: int
    quantity: Quantity
    timeout_s: float = 300

    @property
    def ring_messages(self) -> int:
        """Messages of one ring all-reduce: 2 (n - 1) steps of n ranks."""
        return 2 * (self.ranks - 1) * self.ranks

    def options(self) -> list[object]:
        """As the peers' programs take it."""
        return ["--size", self.size_bytes, "--iterations", self.iterations, "--warmup", self.warmup]


def summarise(post_ns: IntArray, done_ns: IntArray, shape: Shape) -> Reading:
    """What one run of a system says.

    Args:
        post_ns: when each call was made; shape (ranks, iterations), ns.
        done_ns: when each call was done; the same shape.
        shape: what was run.

    Returns:
        The median over the iterations: of cct (last post to last done), of the longest time of a rank (its own post
        to its own done), of span (first post to last done). Bus bandwidth is made of cct, the message rate of span.
    """
    cct = _median(done_ns.max(axis=0) - post_ns.max(axis=0))
    longest = _median((done_ns - post_ns).max(axis=0))
    span = _median(done_ns.max(axis=0) - post_ns.min(axis=0))
    details = {"cct_ns": cct, "longest_ns": longest, "span_ns": span, "iterations": post_ns.shape[1]}
    return Reading(_value(shape, cct_ns=cct, span_ns=span), details)


def _median(values: npt.NDArray[np.int64]) -> float:
    return float(np.median(values))


def _value(shape: Shape, *, cct_ns: float, span_ns: float) -> float:
    if shape.quantity is Quantity.TIME:
        return cct_ns
    if shape.quantity is Quantity.MESSAGE_RATE:
        return shape.ring_messages / span_ns * 1e9
    factor = 2 * (shape.ranks - 1) / shape.ranks  # nccl-tests, doc/PERFORMANCE.md
    return factor * shape.size_bytes / cct_ns * 1e9


@dataclass(frozen=True, slots=True)
class OwnAllReduce:
    """`charkha bench all_reduce`; the times are those of its run folder. `algorithm` None: by its default table."""

    transport: str
    shape: Shape
    credits: bool = True
    algorithm: str | None = None

    @property
    def name(self) -> str:
        """See Subject."""
        return self.transport if self.credits else f"{self.transport}, credits off"

    def lacking(self) -> str | None:
        """See Subject."""
        return None if self.transport in TRANSPORTS else f"charkha bench has no transport {self.transport}"

    def measure(self) -> Reading:
        """See Subject."""
        with tempfile.TemporaryDirectory(prefix="charkha-peers-") as folder:
            run(self._command(Path(folder) / "run"), timeout_s=self.shape.timeout_s)
            return read_run(Path(folder) / "run", self.shape)

    def _command(self, folder: Path) -> Sequence[object]:
        shape = self.shape
        algorithm = [] if self.algorithm is None else ["--algorithm", f"all_reduce={self.algorithm}"]
        return [
            *(sys.executable, "-m", "emulator", "bench", "all_reduce", *algorithm),
            *("-n", shape.ranks, "-b", shape.size_bytes, "-e", shape.size_bytes, "--transport", self.transport),
            *("--iterations", shape.iterations, "--warmup", shape.warmup, "--credits", "on" if self.credits else "off"),
            *("--out", folder, "--json"),
        ]


def read_run(folder: Path, shape: Shape) -> Reading:
    """Sum up the samples of a run folder of one all-reduce.

    Raises:
        MeasurementFailed: samples are missing.
    """
    samples = pq.read_table(folder / SAMPLES, columns=["iteration", "rank", "post_ns", "done_ns", "early"])
    samples = samples.sort_by([("rank", "ascending"), ("iteration", "ascending")])
    measured = samples["iteration"].to_numpy() >= 0
    columns = {name: samples[name].to_numpy()[measured] for name in ("post_ns", "done_ns", "early")}
    grid = (shape.ranks, shape.iterations)
    if len(columns["post_ns"]) != shape.ranks * shape.iterations:
        raise MeasurementFailed(f"the run has {len(columns['post_ns'])} samples instead of {grid[0] * grid[1]}")
    reading = summarise(columns["post_ns"].reshape(grid), columns["done_ns"].reshape(grid), shape)
    early = int(columns["early"].reshape(grid).any(axis=0).sum())
    return Reading(reading.value, {**reading.details, "early_iterations": early})


@dataclass(frozen=True, slots=True)
class Gloo:
    """torch.distributed's all_reduce, backend gloo, over lo; it sums float32."""

    python: Path
    shape: Shape

    @property
    def name(self) -> str:
        """See Subject."""
        return "Gloo"

    def lacking(self) -> str | None:
        """See Subject."""
        return lacking_module(self.python, "torch")

    def measure(self) -> Reading:
        """See Subject."""
        program = PROGRAMS / "gloo_all_reduce.py"
        argv = [self.python, program, "--ranks", self.shape.ranks, *self.shape.options()]
        return _timed(run(argv, timeout_s=self.shape.timeout_s), self.shape)


@dataclass(frozen=True, slots=True)
class OpenMpi:
    """MPI_Allreduce over TCP on lo, by mpi4py with numpy buffers; it sums float32."""

    python: Path
    shape: Shape

    @property
    def name(self) -> str:
        """See Subject."""
        return "Open MPI"

    def lacking(self) -> str | None:
        """See Subject."""
        return lacking_command("mpirun") or lacking_module(self.python, "mpi4py")

    def measure(self) -> Reading:
        """See Subject."""
        parameters = [word for name, value in MPI_OVER_TCP.items() for word in ("--mca", name, value)]
        program = [self.python, PROGRAMS / "mpi_all_reduce.py", *self.shape.options()]
        argv = [*MPIRUN, *parameters, "-n", self.shape.ranks, *program]
        return _timed(run(argv, timeout_s=self.shape.timeout_s), self.shape)


@dataclass(frozen=True, slots=True)
class PushPullRing:
    """What a ring all-reduce sends, over plain ZeroMQ, by one process per core."""

    shape: Shape

    @property
    def name(self) -> str:
        """See Subject."""
        return "ZeroMQ PUSH/PULL"

    def lacking(self) -> str | None:
        """See Subject."""
        return None

    def measure(self) -> Reading:
        """See Subject."""
        module = "lab.benchmarks.peers.programs.push_pull_ring"
        options = ["--ranks", self.shape.ranks, *self.shape.options()]
        return _timed(run_python(module, *options, timeout_s=self.shape.timeout_s), self.shape)


def lacking_module(python: Path, module: str) -> str | None:
    """Words for a module that the peers' environment does not have."""
    if python.exists() and any(python.parents[1].glob(f"lib/python*/site-packages/{module}")):
        return None
    return f"{module} is not installed in {python.parents[1]} ({INSTALL})"


def _timed(output: str, shape: Shape) -> Reading:
    found = last_json(output)
    post, done = (np.array(found[key], np.int64) for key in ("post_ns", "done_ns"))
    if post.shape != (shape.ranks, shape.iterations):
        raise MeasurementFailed(f"times of shape {post.shape} instead of {(shape.ranks, shape.iterations)}")
    reading = summarise(post, done, shape)
    return Reading(reading.value, {**reading.details, "version": found["version"]})
