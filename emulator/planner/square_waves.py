"""Two jobs at one port as square waves: each computes, then communicates at the whole rate, or at half while both do.

The arithmetic that a measured curve of interference over the phase of two jobs is held against. For equal jobs with a
duty d (share of communication in an iteration alone) of at most a half, an iteration takes 1 + max(0, d - s) times as
long as alone, where s is the shorter way from one start to the other, as a share of an iteration; the area under that
curve is 1 + d². Jobs that differ move against each other, so they are played out.
"""

from __future__ import annotations

from dataclasses import dataclass

ITERATIONS = 50


@dataclass(frozen=True, slots=True)
class Wave:
    """One iteration of a job alone: it computes, then communicates at the full rate of the port; ns."""

    compute_ns: float
    communication_ns: float

    @property
    def period_ns(self) -> float:
        """An iteration alone."""
        return self.compute_ns + self.communication_ns

    @property
    def duty(self) -> float:
        """Share of communication, 0 to 1."""
        return self.communication_ns / self.period_ns


@dataclass(slots=True)
class _Playing:
    """A job at a moment: it waits for its start, computes or communicates, and has `left_ns` of it to do.

    Iterations that begin before `counts_from_ns`, when both have begun, do not count.
    """

    wave: Wave
    left_ns: float
    counts_from_ns: float
    communicates: bool = False
    has_begun: bool = False
    began_ns: float = 0.0
    took_ns: float = 0.0
    done: int = 0

    def advance(self, now_ns: float) -> None:
        """What it does now is over: on to the next."""
        if self.has_begun and not self.communicates:
            self.communicates, self.left_ns = True, self.wave.communication_ns
            return
        if self.has_begun and self.began_ns >= self.counts_from_ns:
            self.done += 1
            self.took_ns += now_ns - self.began_ns
        self.has_begun, self.communicates = True, False
        self.began_ns, self.left_ns = now_ns, self.wave.compute_ns

    @property
    def factor(self) -> float:
        """Mean of its iterations over one alone."""
        return self.took_ns / self.done / self.wave.period_ns


def expected_factors(first: Wave, second: Wave, *, phase: float, iterations: int = ITERATIONS) -> tuple[float, float]:
    """How much longer the iterations of two jobs are than alone.

    Args:
        first, second: the jobs; each takes some time.
        phase: start of the second after that of the first, in iterations of the first alone; at least 0.
        iterations: at least so many of each, begun when both jobs had begun.

    Returns:
        The factor of each job, at least 1.
    """
    offset_ns = phase * first.period_ns
    jobs = _Playing(first, 0.0, offset_ns), _Playing(second, offset_ns, offset_ns)
    now_ns = 0.0
    while min(job.done for job in jobs) < iterations:
        for job in jobs:
            if job.left_ns <= 0:
                job.advance(now_ns)
        slowed = 2.0 if all(job.communicates for job in jobs) else 1.0
        step_ns = min(job.left_ns * (slowed if job.communicates else 1.0) for job in jobs)
        for job in jobs:
            job.left_ns -= step_ns / (slowed if job.communicates else 1.0)
            job.left_ns = 0.0 if job.left_ns < 1e-6 else job.left_ns  # of a ns: what floats leave over
        now_ns += step_ns
    return jobs[0].factor, jobs[1].factor
